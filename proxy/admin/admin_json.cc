#include "proxy/admin/admin_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "proxy/base/bytes.h"
#include "proxy/ops/shards.h"

namespace elastripe {
namespace {

using Json = nlohmann::ordered_json;

// Names come from the configuration and keys from clients: bytes that are no UTF-8 must not throw.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json epoch_json(const node::Epoch& epoch) {
  return {{"number", epoch.number},
          {"decider", fmt::format("{:08x}", epoch.decider)},
          {"map_hash", fmt::format("{:016x}", epoch.map_hash)}};
}

Json statistics_json(const node::NodeStatistics& s) {
  Json out;
  for (const auto& [name, number] : node::kNodeStatistics) out[std::string(name)] = s.*number;
  return out;
}

Json node_json(const decider::NodeStatus& status) {
  const node::NodeInfo& info = status.info;
  return {{"id", info.id},
          {"name", info.name},
          {"address", fmt::format("{}:{}", info.host, info.port)},
          {"domain", info.domain},
          {"state", node::name(info.state)},
          {"role", node::name(info.role)},
          {"incarnation", fmt::format("{:016x}", info.incarnation)},
          {"lease", status.has_lease},
          {"last_answer_age_ms", status.last_answer_age_ms},
          {"partitions_home", status.partitions_home},
          {"partitions_synced", status.partitions_synced},
          {"partitions_source", status.partitions_source},
          {"free_bytes", status.free_bytes},
          {"has_room", status.has_room},
          {"process", fmt::format("{:016x}", status.process)},
          {"version", status.version},
          {"lacks", status.lacks == node::CapabilitySet() ? "" : node::to_string(status.lacks)},
          {"statistics", statistics_json(status.statistics)}};
}

// When the job ends if it goes on as it did; null where nothing tells.
Json seconds_left(const jobs::RepairStatus& repair) {
  const jobs::JobProgress& progress = repair.progress;
  const uint64_t planned = progress.planned.traffic.bytes();
  if (!repair.is_running || progress.settled_bytes == 0 || planned < progress.settled_bytes) {
    return {};
  }
  const double elapsed = std::chrono::duration<double>(progress.elapsed).count();
  const auto left = static_cast<double>(planned - progress.settled_bytes);
  return std::ceil(elapsed * left / static_cast<double>(progress.settled_bytes));
}

// The first object that could not be repaired, and why.
std::string problem_of(const jobs::JobProgress& progress) {
  if (progress.problems.empty()) return {};
  const jobs::JobProblem& first = progress.problems.front();
  return fmt::format("{}: {}", escape_for_log(first.key, 250), first.reason);
}

Json repair_json(const jobs::RepairStatus& repair) {
  const jobs::JobProgress& progress = repair.progress;
  const char* waiting = repair.is_automatic ? "waiting" : "off";
  return {{"state", repair.is_running ? "running" : waiting},
          {"waits_for", repair.waits_for},
          {"settled_epoch", repair.settled_in.number},
          {"epoch", repair.now_in.number},
          {"objects",
           {{"planned", progress.planned.objects},
            {"restored", progress.counts.done},
            {"refused", progress.counts.refused},
            {"failed", progress.counts.failed}}},
          {"problem", problem_of(progress)},
          {"bytes",
           {{"planned", progress.planned.traffic.bytes()}, {"settled", progress.settled_bytes}}},
          {"seconds_left", seconds_left(repair)}};
}

// The background scrub: those that somebody asks for are jobs.
Json scrub_json(const jobs::ScrubStatus& scrub) {
  const jobs::JobCounts& counts = scrub.progress.counts;
  const char* waiting = scrub.is_on ? "waiting" : "off";
  const bool is_due = scrub.is_on && !scrub.is_running;
  const auto next_in = std::chrono::duration_cast<std::chrono::seconds>(scrub.next_in).count();
  return {{"state", scrub.is_running ? "running" : waiting},
          {"seconds_until_next", is_due ? Json(next_in) : Json()},
          {"ended", scrub.scrubs},
          {"objects",
           {{"planned", scrub.progress.planned.objects},
            {"clean", counts.done},
            {"refused", counts.refused},
            {"failed", counts.failed}}}};
}

std::string node_name(const MapPtr& map, NodeId id) {
  const node::NodeInfo* info = map == nullptr ? nullptr : map->find_node(id);
  return info == nullptr ? fmt::format("#{}", id) : info->name;
}

std::string role_of(size_t shard, size_t data_shards) {
  const bool is_parity = shard >= data_shards;
  return fmt::format("{}{}", is_parity ? 'P' : 'D', is_parity ? shard - data_shards : shard);
}

Json segment_json(const node::Segment& segment, const coding::Scheme& scheme,
                  const objects::SegmentHealth& health, const MapPtr& map) {
  Json shards = Json::array();
  const size_t data_shards =
      segment.placement.size() -
      std::min<size_t>(segment.placement.size(), static_cast<size_t>(scheme.m));
  for (size_t i = 0; i < segment.placement.size(); ++i) {
    const auto is_among = [&](const std::vector<uint8_t>& indexes) {
      return std::ranges::find(indexes, i) != indexes.end();
    };
    const bool missing = is_among(health.missing);
    const bool unreachable = is_among(health.unreachable);
    const NodeId node = segment.placement[i];
    shards.push_back({{"role", role_of(i, data_shards)},
                      {"node", node == kNoNode ? Json() : Json(node_name(map, node))},
                      {"missing", missing},
                      {"unreachable", unreachable}});
  }
  Json json = {{"number", segment.number},
               {"length", segment.length},
               {"block_bytes", segment.block_bytes},
               {"state", segment.state == coding::State::kNarrow ? "k" : "k'"},
               {"generation", segment.generation},
               {"data_txid", node::to_string(segment.data_txid)},
               {"folded_lsn", segment.folded_lsn},
               {"shards", shards}};
  for (const node::MovedShard& shard : segment.moved) {
    json["moved"].push_back(
        {{"role", role_of(shard.index, data_shards)}, {"txid", node::to_string(shard.txid)}});
  }
  return json;
}

// Null: the tail has no log.
Json log_json(const std::optional<objects::LogHealth>& log) {
  if (!log) return {};
  return {{"bytes", log->settled_bytes + log->unsettled_bytes},
          {"settled_bytes", log->settled_bytes},
          {"unsettled_bytes", log->unsettled_bytes},
          {"settled_to", log->settled_to},
          {"age_ms", log->age_ms}};
}

const char* kind_name(node::RecordKind kind) {
  switch (kind) {
    case node::RecordKind::kInline:
      return "inline";
    case node::RecordKind::kStriped:
      return "striped";
    case node::RecordKind::kTombstone:
      return "tombstone";
  }
  return "unknown";
}

Json objects_json(const decider::ClusterStatus& status) {
  Json surviving = Json::object();
  for (size_t failures = 0; failures < status.objects_surviving.size(); ++failures) {
    surviving[std::to_string(failures)] = status.objects_surviving[failures];
  }
  return {{"lacking_shards", status.objects_lacking},
          {"lost", status.objects_lost},
          {"surviving", surviving}};
}

// A node that is lost has lost its memory too; a silent one may be there with all of it.
Json memory_json(const std::vector<decider::NodeStatus>& nodes) {
  node::NodeStatistics sum;
  uint64_t free_bytes = 0;
  for (const decider::NodeStatus& node : nodes) {
    if (node.info.state == node::NodeState::kLost) continue;
    sum.used_bytes += node.statistics.used_bytes;
    sum.limit_bytes += node.statistics.limit_bytes;
    sum.record_bytes += node.statistics.record_bytes;
    sum.shard_bytes += node.statistics.shard_bytes;
    if (node.info.state == node::NodeState::kUp) free_bytes += node.free_bytes;
  }
  const uint64_t stored = sum.record_bytes + sum.shard_bytes;
  return {{"used_bytes", sum.used_bytes},
          {"limit_bytes", sum.limit_bytes},
          {"record_bytes", sum.record_bytes},
          {"shard_bytes", sum.shard_bytes},
          {"other_bytes", sum.used_bytes - std::min(sum.used_bytes, stored)},
          {"free_bytes", free_bytes}};
}

// Each copy of a log counts, as it takes memory. Of nodes that are up: others can not be folded.
Json update_logs_json(const std::vector<decider::NodeStatus>& nodes) {
  node::NodeStatistics sum;
  for (const decider::NodeStatus& node : nodes) {
    if (node.info.state != node::NodeState::kUp) continue;
    sum.logs += node.statistics.logs;
    sum.log_bytes += node.statistics.log_bytes;
    sum.log_used_bytes += node.statistics.log_used_bytes;
    sum.log_limit_bytes += node.statistics.log_limit_bytes;
    sum.log_merged_bytes += node.statistics.log_merged_bytes;
    sum.log_refusals += node.statistics.log_refusals;
    sum.log_age_ms = std::max(sum.log_age_ms, node.statistics.log_age_ms);
  }
  return {{"logs", sum.logs},
          {"bytes", sum.log_bytes},
          {"used_bytes", sum.log_used_bytes},
          {"limit_bytes", sum.log_limit_bytes},
          {"age_ms", sum.log_age_ms},
          {"merged_bytes", sum.log_merged_bytes},
          {"refusals", sum.log_refusals}};
}

Json proxies_json(const std::vector<decider::KnownProxy>& proxies) {
  Json list = Json::array();
  for (const decider::KnownProxy& proxy : proxies) {
    const decider::ProxyCard& card = proxy.card;
    list.push_back(
        {{"proxy_id", card.name},
         {"clients", card.clients},
         {"admin", card.admin},
         {"version", card.version},
         {"decides", card.decides_as != 0},
         {"decides_as", fmt::format("{:08x}", card.decides_as)},
         {"leaves", card.leaves},
         {"self", proxy.is_self},
         {"age_ms", std::chrono::duration_cast<std::chrono::milliseconds>(proxy.age).count()}});
  }
  return list;
}

Json election_json(const decider::ElectionStatus& election) {
  return {{"by", election.by}, {"elected", election.elected}, {"problem", election.problem}};
}

Json maintenance(const jobs::RepairStatus& repair, const jobs::ScrubStatus& scrub) {
  return {{"repair", repair_json(repair)}, {"scrub", scrub_json(scrub)}};
}

}  // namespace

std::string maintenance_json(const jobs::RepairStatus& repair, const jobs::ScrubStatus& scrub) {
  return maintenance(repair, scrub).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string status_json(const decider::ClusterStatus& status, const jobs::RepairStatus& repair,
                        const jobs::ScrubStatus& scrub, const std::string& version,
                        const std::string& proxy_id) {
  const auto in_state = [&](node::NodeState state) {
    return std::ranges::count_if(
        status.nodes, [&](const decider::NodeStatus& n) { return n.info.state == state; });
  };
  Json work = maintenance(repair, scrub);
  if (const Json told = Json::parse(status.maintenance, nullptr, /*allow_exceptions=*/false);
      told.is_object()) {
    work.update(told);
  }
  return text_of({{"version", version},
                  {"proxy_id", proxy_id},
                  {"state", status.state},
                  {"reason", status.reason},
                  {"decides", status.decides},
                  {"proxies", proxies_json(status.proxies)},
                  {"election", election_json(status.election)},
                  {"cluster_id", fmt::format("{:016x}", status.cluster_id)},
                  {"epoch", epoch_json(status.epoch)},
                  {"settings_version", status.settings_version},
                  {"capabilities", node::to_string(status.capabilities)},
                  {"flush_at", status.flush_at == 0 ? Json() : Json(status.flush_at)},
                  {"nodes",
                   {{"configured", status.nodes.size()},
                    {"up", in_state(node::NodeState::kUp)},
                    {"suspect", in_state(node::NodeState::kSuspect)},
                    {"away", in_state(node::NodeState::kAway)},
                    {"lost", in_state(node::NodeState::kLost)}}},
                  {"partitions",
                   {{"total", status.partitions},
                    {"synced", status.partitions_synced},
                    {"lost", status.partitions_lost},
                    {"short", status.partitions_short},
                    {"to_move", status.partitions_to_move}}},
                  {"objects", objects_json(status)},
                  {"repair", work["repair"]},
                  {"scrub", work["scrub"]},
                  {"memory", memory_json(status.nodes)},
                  {"update_logs", update_logs_json(status.nodes)}});
}

std::string nodes_json(const decider::ClusterStatus& status) {
  Json nodes = Json::array();
  for (const decider::NodeStatus& node : status.nodes) nodes.push_back(node_json(node));
  return text_of({{"epoch", status.epoch.number}, {"nodes", nodes}});
}

std::string object_json(const std::string& key, const objects::ObjectReport& report,
                        const MapPtr& map) {
  const node::Record& record = *report.record;
  const node::RecordContent& content = record.content;
  Json homes = Json::array();
  for (const NodeId id : report.homes) homes.push_back(node_name(map, id));
  Json segments = Json::array();
  size_t missing = 0;
  size_t unreachable = 0;
  for (size_t i = 0; i < report.segments.size(); ++i) {
    const objects::SegmentHealth& health = report.segments[i];
    missing += health.missing.size();
    unreachable += health.unreachable.size();
    segments.push_back(
        segment_json(content.segments[report.first_segment + i], content.scheme, health, map));
  }
  Json object = {{"key", escape_for_log(key, 250)},
                 {"kind", kind_name(content.kind)},
                 {"size", content.size},
                 {"flags", content.flags},
                 {"exptime", content.exptime},
                 {"flushed", report.is_flushed},
                 {"version", record.meta.version},
                 {"value_version", record.meta.value_version},
                 {"fence", record.meta.fence},
                 {"homes", homes}};
  if (content.kind == node::RecordKind::kStriped) {
    object["scheme"] = coding::to_string(content.scheme);
    object["last_lsn"] = report.last_lsn();
    object["log"] = log_json(report.log);
    object["missing_shards"] = missing;
    object["unreachable_shards"] = unreachable;
    object["segments_total"] = content.segments.size();
    object["segments"] = segments;
  }
  return text_of(object);
}

std::string scrub_json(const std::string& key, const jobs::ScrubReport& report, const MapPtr& map) {
  const node::RecordContent& content = report.record->content;
  Json segments = Json::array();
  for (size_t i = 0; i < report.segments.size(); ++i) {
    const jobs::SegmentScrub& scrub = report.segments[i];
    const node::Segment& segment = content.segments[i];
    const auto shards = [&](const std::vector<uint8_t>& indexes) {
      Json list = Json::array();
      for (const uint8_t index : indexes) {
        const NodeId node = segment.placement[index];
        list.push_back({{"role", role_of(index, content.scheme.k_prime)},
                        {"node", node == kNoNode ? Json() : Json(node_name(map, node))}});
      }
      return list;
    };
    segments.push_back({{"number", segment.number},
                        {"state", segment.state == coding::State::kNarrow ? "k" : "k'"},
                        {"generation", segment.generation},
                        {"clean", scrub.is_clean()},
                        {"missing", shards(scrub.missing)},
                        {"bad", shards(scrub.bad)},
                        {"unreachable", shards(scrub.unreachable)},
                        {"wrong", shards(scrub.wrong)},
                        {"unexplained", scrub.has_unexplained},
                        {"data_matches", scrub.data_matches}});
  }
  Json unlike = Json::array();
  for (const NodeId home : report.unlike) unlike.push_back(node_name(map, home));
  return text_of({{"key", escape_for_log(key, 250)},
                  {"clean", report.is_clean()},
                  {"bytes", report.bytes},
                  {"homes_unlike", unlike},
                  {"segments", segments}});
}

std::string accepted_json(const decider::AcceptedLoss& accepted) {
  return text_of({{"accepted", true},
                  {"partitions_start_empty", accepted.start_empty},
                  {"partitions_lost", accepted.lost},
                  {"objects_lost", accepted.objects}});
}

std::string settings_json(const node::ClusterMap& map) {
  return text_of({{"version", map.settings.version},
                  {"epoch", map.epoch.number},
                  {"settings", map.settings.text}});
}

std::string error_json(const Error& error) {
  return text_of({{"error", name(error.code)}, {"message", error.message}});
}

}  // namespace elastripe
