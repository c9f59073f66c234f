#include "proxy/ops/jobs/scrub.h"

#include <algorithm>
#include <optional>

#include "proxy/async/when_all.h"
#include "proxy/cluster/record_chain.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/jobs/fingerprints.h"
#include "proxy/ops/objects/baselines/in_place_update.h"
#include "proxy/ops/objects/put.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/sync.h"
#include "proxy/ops/shards.h"

namespace elastripe::jobs {

namespace {

using node::Segment;

std::vector<uint8_t> indexes_of(const coding::ShardSet& shards) {
  std::vector<uint8_t> indexes;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards.test(i)) indexes.push_back(static_cast<uint8_t>(i));
  }
  return indexes;
}

Task<Result<SegmentScrub>> scrub_segment(OpsContext& ops, MapPtr map, RecordPtr record,
                                         size_t index, uint64_t& bytes) {
  const coding::Scheme& scheme = record->content.scheme;
  const Segment& segment = record->content.segments[index];
  const auto geometry = geometry_of(scheme, segment);
  if (!geometry) co_return fail(geometry.error());
  const auto told = co_await take_fingerprints(ops, map, scheme, segment,
                                               ops.clock.now() + ops.settings.request_timeout);
  if (!told) co_return fail(told.error());
  const SegmentVerdict verdict = judge(*geometry, segment, *told);
  bytes += told->bytes;
  co_return SegmentScrub{.missing = indexes_of(told->missing),
                         .bad = indexes_of(told->bad),
                         .unreachable = indexes_of(told->unreachable),
                         .wrong = indexes_of(verdict.wrong),
                         .has_unexplained = verdict.has_unexplained,
                         .data_matches = verdict.data_matches};
}

// Homes whose copy is not `record`. Those that do not answer, or are not synced yet, tell nothing;
// nor is a newer copy wrong: it is on its way to the tail, where the record was read.
Task<std::vector<NodeId>> find_unlike(OpsContext& ops, MapPtr map, std::string key,
                                      RecordPtr record) {
  const Chain chain = chain_of(*map, key);
  const std::vector<NodeId> homes(chain.nodes.begin(), chain.nodes.end());
  std::vector<Task<Result<RecordReply>>> reads;
  reads.reserve(homes.size());
  const TimePoint deadline = ops.clock.now() + ops.settings.request_timeout;
  for (const NodeId home : homes) {
    reads.push_back(read_record(ops.nodes, map, home, node::Role::kAny, key, /*if_version=*/0,
                                call_deadline(ops, deadline)));
  }
  const auto replies = co_await when_all(std::move(reads));
  std::vector<NodeId> unlike;
  for (size_t i = 0; i < homes.size(); ++i) {
    if (!replies[i]) continue;
    if (replies[i]->status == node::Status::kNotSynced) continue;
    const RecordPtr& copy = replies[i]->record;
    if (copy != nullptr && copy->meta.version > record->meta.version) continue;
    if (copy == nullptr || *copy != *record) unlike.push_back(homes[i]);
  }
  co_return unlike;
}

// Nothing: the object was changed meanwhile, and its shards with it.
using MaybeReport = std::optional<ScrubReport>;

void count(OpsContext& ops, const ScrubReport& report) {
  ++ops.counters.scrubbed_objects;
  ops.counters.scrubbed_bytes += report.bytes;
  for (const SegmentScrub& segment : report.segments) {
    const bool is_unexplained = segment.has_unexplained || !segment.data_matches;
    const size_t wrong = segment.bad.size() + segment.wrong.size();
    ops.counters.scrub_wrong += wrong + (wrong == 0 && is_unexplained ? 1 : 0);
  }
}

Task<Result<MaybeReport>> try_scrub(OpsContext& ops, MapPtr map, std::string key,
                                    TimePoint& deadline) {
  auto tail = co_await records::try_read_tail(ops, map, key, /*if_version=*/0, deadline);
  if (!tail) co_return fail(tail.error());
  ScrubReport report;
  if (tail->record == nullptr || !is_live_now(ops, *map, *tail->record)) {
    co_return MaybeReport(report);
  }
  report.record = tail->record;
  if (is_in_place(ops.pools.pool_of(key).updates)) {
    auto drained = co_await objects::drain_updates(ops, map, report.record, deadline);
    if (!drained) co_return fail(drained.error());
  }
  const std::vector<Segment>& segments = report.record->content.segments;
  for (size_t i = 0; i < segments.size(); ++i) {
    auto scrub = co_await scrub_segment(ops, map, report.record, i, report.bytes);
    if (!scrub) co_return fail(scrub.error());
    report.segments.push_back(std::move(*scrub));
    // However many there are, and whatever map comes in between.
    deadline = std::max(deadline, fresh_deadline(ops));
  }
  report.unlike = co_await find_unlike(ops, map, key, report.record);
  if (!report.is_clean()) {
    const auto now = co_await records::try_read_tail(
        ops, map, key, /*if_version=*/0, ops.clock.now() + ops.settings.request_timeout);
    if (!now) co_return fail(now.error());
    if (now->record == nullptr || now->record->content.segments != segments) {
      co_return MaybeReport();
    }
    // A commit was on its way through the homes, maybe, and has arrived.
    report.record = now->record;
    if (!report.unlike.empty()) {
      report.unlike = co_await find_unlike(ops, map, key, report.record);
    }
  }
  count(ops, report);
  co_return MaybeReport(std::move(report));
}

}  // namespace

coding::ShardSet SegmentScrub::to_restore() const {
  coding::ShardSet shards;
  for (const auto* indexes : {&missing, &bad, &wrong}) {
    for (const uint8_t index : *indexes) shards.set(index);
  }
  return shards;
}

bool ScrubReport::is_clean() const {
  return unlike.empty() && std::ranges::all_of(segments, &SegmentScrub::is_clean);
}

Task<Result<ScrubReport>> scrub_object(OpsContext& ops, std::string key, TimePoint deadline) {
  return under_newest_map(ops, deadline, [&ops, key](const MapPtr& map, TimePoint& until) {
    return try_scrub(ops, map, key, until);
  });
}

namespace {

Task<Result<bool>> try_sync(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline) {
  const auto synced = co_await records::sync_key(ops, std::move(map), std::move(key), deadline);
  if (!synced) co_return fail(synced.error());
  co_return true;
}

}  // namespace

// A sync of the key, for homes that lack it, the head too; then a touch that changes nothing, for
// those whose copy has the same version and is another one.
Task<Result<void>> rewrite_record(OpsContext& ops, std::string key, RecordPtr record) {
  const auto synced = co_await under_newest_map(
      ops, fresh_deadline(ops),
      [&](const MapPtr& map, TimePoint& until) { return try_sync(ops, map, key, until); });
  if (!synced) co_return fail(synced.error());
  const MapPtr map = ops.map.current();
  if (map != nullptr && (co_await find_unlike(ops, map, key, record)).empty()) {
    co_return Result<void>{};
  }
  const auto guard = co_await ops.locks.lock(key);
  records::Commit commit;
  commit.key = key;
  commit.condition = node::Condition::kIfVersion;
  commit.condition_argument = record->meta.version;
  commit.known_version = record->meta.version;
  commit.mutation = node::Mutation::kTouch;
  commit.content.exptime = record->content.exptime;
  const auto result = co_await records::commit_record(ops, commit, fresh_deadline(ops));
  if (!result) co_return fail(result.error());
  objects::after_commit(ops, key, *result);
  co_return Result<void>{};
}

}  // namespace elastripe::jobs
