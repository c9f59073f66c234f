#include "proxy/ops/jobs/survey.h"

#include <algorithm>
#include <map>

#include "coding/decode_plan.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/batches.h"
#include "proxy/ops/jobs/pages.h"
#include "proxy/ops/objects/put.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/record_scan.h"
#include "proxy/ops/shards.h"

namespace elastripe::jobs {

namespace {

constexpr uint32_t kScanBytes = 256 << 10;
constexpr size_t kNodesAtOnce = 8;
constexpr size_t kDeletesAtOnce = 16;

bool ends_survey(const Error& error) {
  return error.code == ErrorCode::kStaleEpoch || error.code == ErrorCode::kCancelled;
}

// A striped object of one page, and which of its shards are gone or do not tell.
struct Surveyed {
  std::string key;
  RecordPtr record;
  std::vector<coding::ShardSet> gone, silent;  // by segment
};
struct Place {
  size_t object;
  size_t segment;
  size_t index;
};
using Places = std::vector<Place>;

node::ShardName name_of(const std::vector<Surveyed>& page, const Place& place) {
  const auto& content = page[place.object].record->content;
  return shard_name(content.segments[place.segment], content.scheme, place.index);
}

// Asks one node for what the page's objects have on it. Errors: only those that end the survey.
Task<Result<void>> ask_node(OpsContext& ops, MapPtr map, NodeId id, Places places,
                            std::vector<Surveyed>& page, SurveyReport& report) {
  for (size_t first = 0; first < places.size(); first += kShardsPerFrame) {
    const size_t end = std::min(places.size(), first + kShardsPerFrame);
    std::vector<node::ShardName> names;
    for (size_t i = first; i < end; ++i) names.push_back(name_of(page, places[i]));
    const auto answer = co_await confirm_shards(ops, map, id, std::move(names),
                                                /*check_pages=*/false, fresh_deadline(ops));
    if (!answer && ends_survey(answer.error())) co_return fail(answer.error());
    if (!answer) report.is_complete = false;
    for (size_t i = first; i < end; ++i) {
      const Place& place = places[i];
      if (answer && (*answer)[i - first].present) continue;
      Surveyed& object = page[place.object];
      (answer ? object.gone : object.silent)[place.segment].set(place.index);
    }
  }
  co_return Result<void>{};
}

// What the map says of a shard's node; those that are up are asked.
void sort_places(const node::ClusterMap& map, std::vector<Surveyed>& page,
                 std::map<NodeId, Places>& to_ask) {
  for (size_t object = 0; object < page.size(); ++object) {
    Surveyed& surveyed = page[object];
    const auto& segments = surveyed.record->content.segments;
    surveyed.gone.resize(segments.size());
    surveyed.silent.resize(segments.size());
    for (size_t segment = 0; segment < segments.size(); ++segment) {
      const auto& placement = segments[segment].placement;
      for (size_t index = 0; index < placement.size(); ++index) {
        const auto known = read_without_asking(map, placement[index]);
        if (!known) {
          to_ask[placement[index]].push_back({object, segment, index});
        } else {
          (*known == ShardRead::kMissing ? surveyed.gone : surveyed.silent)[segment].set(index);
        }
      }
    }
  }
}

bool is_lost(const Surveyed& object) {
  const auto& content = object.record->content;
  for (size_t i = 0; i < content.segments.size(); ++i) {
    if (object.gone[i].none()) continue;
    const auto geometry = geometry_of(content.scheme, content.segments[i]);
    if (!geometry) continue;
    const coding::Codec& codec = geometry->codec();
    const auto plan = coding::decode_plan(codec, content.segments[i].state, object.gone[i],
                                          object.gone[i] & codec.data_shards());
    if (!plan) return true;
  }
  return false;
}

bool is_lacking(const Surveyed& object) {
  return std::ranges::any_of(object.gone, [](const auto& shards) { return shards.any(); });
}

// True if the object was deleted, being what it was when its shards were looked for.
Task<Result<bool>> forget(OpsContext& ops, const Surveyed& object) {
  records::Commit removal;
  removal.key = object.key;
  removal.mutation = node::Mutation::kDelete;
  removal.condition = node::Condition::kIfVersion;
  removal.condition_argument = object.record->meta.version;
  removal.known_version = object.record->meta.version;
  auto removed = co_await records::commit_record(ops, removal, fresh_deadline(ops));
  if (!removed) co_return fail(removed.error());
  objects::after_commit(ops, object.key, *removed);
  co_return removed->status == records::CommitStatus::kCommitted;
}

// Shards are gone, too, when the object was overwritten after its record was read.
Task<Result<bool>> is_still(OpsContext& ops, MapPtr map, const Surveyed& object) {
  const uint64_t version = object.record->meta.version;
  auto tail = co_await records::try_read_tail(ops, map, object.key, version, fresh_deadline(ops));
  if (!tail) co_return fail(tail.error());
  co_return tail->same || (tail->record != nullptr && tail->record->meta.version == version);
}

Task<Result<void>> survey_striped(OpsContext& ops, MapPtr map, bool forgets,
                                  std::vector<Surveyed>& page, SurveyReport& report) {
  std::map<NodeId, Places> to_ask;
  sort_places(*map, page, to_ask);
  std::vector<std::pair<NodeId, Places>> nodes(to_ask.begin(), to_ask.end());
  auto asked = co_await in_batches(
      nodes.size(), kNodesAtOnce,
      [&](size_t i) {
        return ask_node(ops, map, nodes[i].first, std::move(nodes[i].second), page, report);
      },
      [](size_t, Result<void> answered) { return answered; });
  if (!asked) co_return asked;
  std::vector<const Surveyed*> lost;
  for (const Surveyed& object : page) {
    ++report.objects;
    if (is_lost(object)) {
      lost.push_back(&object);
    } else {
      report.lacking += is_lacking(object);
    }
  }
  co_return co_await in_batches(
      lost.size(), kDeletesAtOnce,
      [&](size_t i) { return forgets ? forget(ops, *lost[i]) : is_still(ops, map, *lost[i]); },
      [&](size_t, const Result<bool>& done) -> Result<void> {
        if (!done && ends_survey(done.error())) return fail(done.error());
        if (!done) report.is_complete = false;
        if (done && !*done) return {};  // it was overwritten
        ++report.lost;
        report.forgotten += done && forgets;
        return {};
      });
}

// The record, which may have not fitted in the page; null if it is gone by now, or damaged wherever
// it is.
Task<Result<RecordPtr>> record_of(OpsContext& ops, MapPtr map, const node::ScannedRecord& scanned) {
  if (!scanned.record.empty()) {
    auto record = node::decode_record(as_bytes(scanned.record));
    if (record) co_return std::make_shared<const node::Record>(std::move(*record));
  }
  auto tail =
      co_await records::try_read_tail(ops, map, scanned.key, /*if_version=*/0, fresh_deadline(ops));
  if (!tail && tail.error().code == ErrorCode::kLost) co_return nullptr;
  if (!tail) co_return fail(tail.error());
  co_return tail->record;
}

// The striped objects of a page that are live.
Task<Result<std::vector<Surveyed>>> striped_objects(OpsContext& ops, MapPtr map,
                                                    const node::RecordScanReply& page) {
  std::vector<Surveyed> objects;
  for (const node::ScannedRecord& scanned : page.records) {
    const auto record = co_await record_of(ops, map, scanned);
    if (!record) co_return fail(record.error());
    if (*record == nullptr || !(*record)->is_striped() || !is_live_now(ops, *map, **record))
      continue;
    objects.push_back({scanned.key, *record, {}, {}});
  }
  co_return objects;
}

Task<Result<bool>> survey_page(OpsContext& ops, MapPtr map, bool forgets,
                               const node::RecordScanReply& page, SurveyReport& report) {
  auto objects = co_await striped_objects(ops, map, page);
  if (!objects) co_return fail(objects.error());
  auto surveyed = co_await survey_striped(ops, map, forgets, *objects, report);
  if (!surveyed) co_return fail(surveyed.error());
  co_return true;
}

}  // namespace

Task<Result<SurveyReport>> survey_objects(OpsContext& ops, MapPtr map, bool forgets) {
  SurveyReport report;
  std::vector<bool> chosen(map->partitions.size());
  for (size_t p = 0; p < chosen.size(); ++p) chosen[p] = !map->partitions[p].lost;
  for (const auto& [tail, partitions] : records::partitions_by_tail(*map, chosen)) {
    node::RecordScanRequest message;
    message.max_bytes = kScanBytes;
    message.without_values = true;
    message.partitions = partitions;
    const auto surveyed = co_await for_each_page(
        ops, map, tail, std::move(message),
        [&](node::RecordScanReply& page) { return survey_page(ops, map, forgets, page, report); });
    if (!surveyed) co_return fail(surveyed.error());
  }
  co_return report;
}

}  // namespace elastripe::jobs
