// What `elastripe object KEY` shows: the record, its update log, and which of its shards are
// missing.
#include <algorithm>
#include <span>

#include "proxy/async/when_all.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/shards.h"

namespace elastripe::objects {

namespace {

// kRead: the node has it, whole.
Task<ShardRead> look_for_shard(OpsContext& ops, MapPtr map, NodeId node, node::ShardName name,
                               TimePoint deadline) {
  if (!map->is_up(node)) {
    const node::NodeInfo* info = map->find_node(node);
    const bool is_gone = info == nullptr || info->state == node::NodeState::kLost;
    co_return is_gone ? ShardRead::kMissing : ShardRead::kUnreachable;
  }
  node::ShardConfirmRequest message;
  message.names.push_back(name);
  const auto answer = co_await ask(ops.nodes, *map, node, message, call_deadline(ops, deadline));
  if (!answer) {
    switch (answer.error().code) {
      case ErrorCode::kUnavailable:
        co_return ShardRead::kMissing;
      case ErrorCode::kStaleEpoch:
        co_return ShardRead::kStaleEpoch;
      default:
        co_return ShardRead::kUnreachable;
    }
  }
  const auto& entries = answer->args.entries;
  const bool is_there = entries.size() == 1 && entries[0].present;
  co_return is_there ? ShardRead::kRead : ShardRead::kMissing;
}

LogHealth health_of(const LogView& log) {
  LogHealth health{
      .last_lsn = log.image.last, .settled_to = log.image.settled_to, .age_ms = log.age_ms};
  for (const node::LogExtent& extent : log.image.settled) {
    health.settled_bytes += extent.bytes.size();
  }
  for (const node::LogExtent& extent : log.image.unsettled) {
    health.unsettled_bytes += extent.bytes.size();
  }
  return health;
}

// kStaleEpoch: the map is over, so what nodes said under it tells nothing of their shards.
Task<Result<ObjectReport>> try_inspect(OpsContext& ops, MapPtr map, std::string key,
                                       TimePoint deadline, size_t first, size_t most) {
  auto tail = co_await records::try_read_log(ops, map, key, deadline);
  if (!tail) co_return fail(tail.error());
  ObjectReport report;
  report.record = tail->record;
  report.homes = map->partitions[map->partition_of(key)].homes;
  if (report.record == nullptr) co_return report;
  if (tail->log != nullptr) report.log = health_of(*tail->log);
  report.is_flushed = report.record->is_flushed(map->flush_floor);

  const auto& content = report.record->content;
  report.first_segment = std::min(first, content.segments.size());
  const size_t count = std::min(most, content.segments.size() - report.first_segment);
  for (const auto& segment : std::span(content.segments).subspan(report.first_segment, count)) {
    std::vector<Task<ShardRead>> looks;
    looks.reserve(segment.placement.size());
    for (size_t i = 0; i < segment.placement.size(); ++i) {
      looks.push_back(look_for_shard(ops, map, segment.placement[i],
                                     shard_name(segment, content.scheme, i), deadline));
    }
    const auto found = co_await when_all(std::move(looks));
    SegmentHealth health;
    for (size_t i = 0; i < found.size(); ++i) {
      const auto index = static_cast<uint8_t>(i);
      if (found[i] == ShardRead::kStaleEpoch) {
        co_return fail(ErrorCode::kStaleEpoch, "the cluster map has changed; ask again");
      }
      if (found[i] == ShardRead::kMissing) health.missing.push_back(index);
      if (found[i] == ShardRead::kUnreachable) health.unreachable.push_back(index);
    }
    report.segments.push_back(std::move(health));
  }
  co_return report;
}

}  // namespace

uint64_t ObjectReport::last_lsn() const {
  uint64_t last = log ? log->last_lsn : 0;
  for (const node::Segment& segment : record->content.segments) {
    last = std::max(last, segment.folded_lsn);
  }
  return last;
}

Task<Result<ObjectReport>> inspect_object(OpsContext& ops, std::string key, TimePoint deadline,
                                          size_t first, size_t most) {
  return under_newest_map(ops, deadline, [=, &ops](const MapPtr& map, TimePoint& until) {
    return try_inspect(ops, map, key, until, first, most);
  });
}

}  // namespace elastripe::objects
