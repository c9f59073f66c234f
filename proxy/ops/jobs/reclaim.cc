#include "proxy/ops/jobs/reclaim.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "proxy/async/when_all.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/batches.h"
#include "proxy/ops/jobs/pages.h"
#include "proxy/ops/objects/put.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/record_scan.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::jobs {

using node::Mutation;
using node::Status;

namespace {

constexpr uint32_t kScanBytes = 256 << 10;
constexpr size_t kTailsAtOnce = 8;
constexpr size_t kMaxDropped = 1024;   // in one frame
constexpr size_t kMaxDead = 32 << 10;  // in memory, of one tail: then they are dropped

}  // namespace

Task<Result<ReclaimReport>> Reclaimer::round(MapPtr map, std::vector<bool> synced) {
  ReclaimReport report;
  auto done = co_await collect_records(map, synced, report);
  if (done) {
    const TimePoint until = ops_.clock.now() + ops_.settings.upload_idle / 3;
    done = co_await orphans_.run(map, synced, until, report);
  }
  ops_.counters.reclaimed_shards += report.shards_deleted;
  ops_.counters.reclaimed_records += report.records_expired + report.tombstones_dropped;
  ops_.counters.fences += report.keys_fenced;
  if (!done) co_return fail(done.error());
  co_return report;
}

Task<Result<void>> Reclaimer::collect_records(MapPtr map, const std::vector<bool>& synced,
                                              ReclaimReport& report) {
  const auto by_tail = records::partitions_by_tail(*map, synced);
  std::vector<NodeId> tails;
  tails.reserve(by_tail.size());
  for (const auto& [tail, _] : by_tail) tails.push_back(tail);
  const auto expired_until_s = expiry_clock_.look().transform(
      [](uint32_t unix_s) { return unix_s - std::min(unix_s, ExpiryClock::kMargin_s); });
  // Each time that a floor rises, uploads to keys without a record that are going on are fenced.
  const bool drops = ops_.clock.now() >= drop_after_;
  std::vector<TailWork> work(
      tails.size(), TailWork{.map = map, .expired_until_s = expired_until_s, .drops = drops});
  auto done = co_await in_batches(
      tails.size(), kTailsAtOnce,
      [&](size_t i) { return collect_at(tails[i], by_tail.at(tails[i]), work[i]); },
      [](size_t, const Result<void>& collected) { return collected; });
  if (drops) drop_after_ = ops_.clock.now() + ops_.settings.upload_idle / 2;
  for (const TailWork& at_tail : work) {
    report.records_expired += at_tail.report.records_expired;
    report.tombstones_dropped += at_tail.report.tombstones_dropped;
    report.chains_completed += at_tail.report.chains_completed;
  }
  co_return done;
}

// A tail that does not answer is left to the next round.
Task<Result<void>> Reclaimer::collect_at(NodeId tail, std::vector<uint8_t> partitions,
                                         TailWork& work) {
  const uint64_t incarnation = work.map->nodes[tail].incarnation;
  Walk& walk = walks_[tail];
  if (walk.incarnation != incarnation) walk = {incarnation, 0};
  node::RecordScanRequest message;
  message.max_bytes = kScanBytes;
  message.tombstones_only = work.drops;
  message.expired_only = work.expired_until_s.has_value();
  if (!message.tombstones_only && !message.expired_only) co_return Result<void>{};
  message.without_values = true;
  message.min_age_s = static_cast<uint32_t>(
      std::chrono::ceil<std::chrono::seconds>(ops_.settings.tombstone_keep).count());
  if (!work.drops) message.min_age_s = UINT32_MAX;
  message.partitions = std::move(partitions);
  message.cursor = walk.cursor;
  const auto walked = co_await for_each_page(
      ops_, work.map, tail, std::move(message),
      [&](node::RecordScanReply& page) { return collect_page(page, walk, work); });
  if (!walked && ends_round(walked.error())) co_return fail(walked.error());
  co_return co_await drop_dead(work);
}

Task<Result<bool>> Reclaimer::collect_page(node::RecordScanReply& page, Walk& walk,
                                           TailWork& work) {
  for (node::ScannedRecord& scanned : page.records) {
    auto sorted = co_await sort_out(std::move(scanned), work);
    if (!sorted) co_return fail(sorted.error());
  }
  auto expired = co_await expire_striped(work);
  if (!expired) co_return fail(expired.error());
  if (work.dead_records >= kMaxDead) {
    auto dropped = co_await drop_dead(work);
    if (!dropped) co_return fail(dropped.error());
  }
  walk.cursor = page.cursor;
  co_return true;
}

Task<Result<void>> Reclaimer::sort_out(node::ScannedRecord scanned, TailWork& work) {
  RecordPtr record;
  const bool is_named_only = scanned.record.empty();  // it did not fit in the page
  if (is_named_only) {
    auto read = co_await records::try_read_tail(ops_, work.map, scanned.key, /*if_version=*/0,
                                                fresh_deadline(ops_));
    if (!read) co_return end_or_go_on(read.error());
    record = read->record;
  } else if (auto decoded = node::decode_record(as_bytes(scanned.record))) {
    record = std::make_shared<const node::Record>(std::move(*decoded));
  }
  if (record == nullptr) co_return Result<void>{};
  const uint32_t exptime = record->content.exptime;
  const bool is_expired = exptime != 0 && exptime <= work.expired_until_s.value_or(0);
  const bool is_over = is_expired || record->is_flushed(work.map->flush_floor);
  if (!record->is_tombstone() && !is_over) co_return Result<void>{};
  if (record->is_striped()) {
    work.expired.emplace_back(std::move(scanned.key), record->meta.version);
    co_return Result<void>{};
  }
  if (is_named_only)
    co_return Result<void>{};  // what was read may be younger than what is asked for
  Dead& dead = work.dead[static_cast<uint32_t>(work.map->partition_of(scanned.key))];
  dead.records.push_back({std::move(scanned.key), record->meta.version});
  dead.expired += !record->is_tombstone();
  ++work.dead_records;
  co_return Result<void>{};
}

// As any DELETE: what the tombstones supersede goes after its grace.
Task<Result<void>> Reclaimer::expire_striped(TailWork& work) {
  const auto expired = std::exchange(work.expired, {});
  co_return co_await in_batches(
      expired.size(), kReclaimedAtOnce,
      [&](size_t i) {
        const auto& [key, version] = expired[i];
        return commit_at_version(ops_, work.map, key, Mutation::kDelete, version);
      },
      [&](size_t i, const Result<records::CommitResult>& commit) {
        if (!commit) return end_or_go_on(commit.error());
        objects::after_commit(ops_, expired[i].first, *commit);
        work.report.chains_completed += has_completed_other(*commit);
        work.report.records_expired += commit->status == records::CommitStatus::kCommitted;
        return Result<void>{};
      });
}

// Inline records that have expired for long are dropped as they are: a tombstone in their place
// would say no more than they do.
Task<Result<void>> Reclaimer::drop_dead(TailWork& work) {
  const std::vector<std::pair<uint32_t, Dead>> drops(work.dead.begin(), work.dead.end());
  work.dead.clear();
  work.dead_records = 0;
  co_return co_await in_batches(
      drops.size(), kReclaimedAtOnce,
      [&](size_t i) {
        return drop_of_partition(work.map, drops[i].first, drops[i].second.records);
      },
      [&](size_t i, const Result<void>& dropped) {
        if (!dropped) return end_or_go_on(dropped.error());
        const Dead& dead = drops[i].second;
        work.report.records_expired += dead.expired;
        work.report.tombstones_dropped += dead.records.size() - dead.expired;
        return Result<void>{};
      });
}

Task<Result<void>> Reclaimer::drop_of_partition(
    MapPtr map, uint32_t partition, std::vector<node::DropTombstonesRequest::Entry> records) {
  const std::vector<NodeId>& homes = map->partitions[partition].homes;
  if (!mutant(Mutant::kDropWithoutFloor)) {
    node::RaiseFloorRequest raise{partition, 0};
    for (const auto& record : records) raise.floor = std::max(raise.floor, record.version);
    // The head first: a record that it commits meanwhile is never below the floors further down.
    for (const NodeId home : homes | std::views::reverse) {
      auto raised = co_await tell(ops_.nodes, map, home, raise, soon(ops_));
      if (!raised) co_return raised;
    }
  }
  for (size_t first = 0; first < records.size(); first += kMaxDropped) {
    const size_t end = std::min(records.size(), first + kMaxDropped);
    node::DropTombstonesRequest drop{partition, {}};
    drop.tombstones.assign(std::make_move_iterator(records.begin() + static_cast<ptrdiff_t>(first)),
                           std::make_move_iterator(records.begin() + static_cast<ptrdiff_t>(end)));
    // The tail last: it is where the next round looks for what others have kept.
    std::vector<Task<Result<void>>> drops;
    for (const NodeId home : homes | std::views::drop(1)) {
      drops.push_back(tell(ops_.nodes, map, home, drop, soon(ops_)));
    }
    for (auto& done : co_await when_all(std::move(drops))) {
      if (!done) co_return done;
    }
    auto done = co_await tell(ops_.nodes, map, homes.front(), drop, soon(ops_));
    if (!done) co_return done;
  }
  co_return Result<void>{};
}

}  // namespace elastripe::jobs
