// What flows count; the proxy shows it as metrics (proxy/admin/ops_metrics.h), the simulator in its
// report.
#pragma once

#include <array>
#include <cstdint>

#include "proxy/base/metrics.h"

namespace elastripe {

// Owned by one thread. What each counts its row below says.
struct OpsCounters {
  uint64_t degraded_reads = 0;
  uint64_t hedges = 0;
  uint64_t hedges_withheld = 0;
  uint64_t degraded_writes = 0;
  uint64_t unknown_outcomes = 0;
  uint64_t commit_conflicts = 0;
  uint64_t reprepares = 0;
  uint64_t key_syncs = 0;
  uint64_t partition_syncs = 0;
  uint64_t records_mended = 0;
  uint64_t fences = 0;
  uint64_t reclaimed_shards = 0;  // deletions after a grace are not counted
  uint64_t reclaimed_records = 0;
  uint64_t repaired_shards = 0;
  uint64_t repaired_bytes = 0;  // of these shards
  uint64_t moved_shards = 0;
  uint64_t moved_bytes = 0;  // of these shards
  uint64_t scrubbed_objects = 0;
  uint64_t scrubbed_bytes = 0;  // of the shards that were there, whether they were sent or not
  uint64_t logged_updates = 0;
  uint64_t update_rounds = 0;  // to the copies of logs, with one update or more
  uint64_t updates_in_one_round = 0;
  uint64_t lost_updates = 0;  // objects whose newest ones, acknowledged, are found gone
  uint64_t full_logs = 0;
  uint64_t full_log_us = 0;  // that updates waited for room
  uint64_t folded_logs = 0;
  uint64_t folded_bytes = 0;
  uint64_t fold_us = 0;        // of those that were committed
  uint64_t folded_age_ms = 0;  // of these logs, of their oldest update
  uint64_t scrub_wrong = 0;    // shards found bad or wrong, and segments that are so somewhere
};

struct OpsCounterRow {
  uint64_t OpsCounters::* counter;
  CounterRow metric;
};

inline constexpr std::array kOpsCounters{
    OpsCounterRow{
        &OpsCounters::degraded_reads,
        {"elastripe_degraded_reads_total", "Objects read through missing or late shards."}},
    OpsCounterRow{&OpsCounters::hedges,
                  {"elastripe_hedges_total", "Segments read around shards that were late."}},
    OpsCounterRow{&OpsCounters::hedges_withheld,
                  {"elastripe_hedges_withheld_total",
                   "Segments whose late shards were waited for, as too many were hedged."}},
    OpsCounterRow{&OpsCounters::degraded_writes,
                  {"elastripe_degraded_writes_total",
                   "Commits acknowledged with less redundancy than their scheme has."}},
    OpsCounterRow{
        &OpsCounters::unknown_outcomes,
        {"elastripe_unknown_outcomes_total", "Operations that may or may not have taken effect."}},
    OpsCounterRow{&OpsCounters::commit_conflicts,
                  {"elastripe_commit_conflicts_total",
                   "Values written again because another writer or a fence came first."}},
    OpsCounterRow{
        &OpsCounters::reprepares,
        {"elastripe_reprepares_total",
         "Striped values prepared again because the cluster map changed before their commit."}},
    OpsCounterRow{&OpsCounters::key_syncs,
                  {"elastripe_key_syncs_total", "Keys synced by themselves."}},
    OpsCounterRow{&OpsCounters::partition_syncs,
                  {"elastripe_partition_syncs_total", "Partitions synced."}},
    OpsCounterRow{&OpsCounters::records_mended,
                  {"elastripe_records_mended_total",
                   "Records whose copy on a node was damaged and is replaced from other homes."}},
    OpsCounterRow{&OpsCounters::fences, {"elastripe_fences_total", "Records fenced."}},
    OpsCounterRow{&OpsCounters::reclaimed_shards,
                  {"elastripe_reclaimed_shards_total", "Orphaned shards that reclaim deleted."}},
    OpsCounterRow{&OpsCounters::reclaimed_records,
                  {"elastripe_reclaimed_records_total",
                   "Expired records that reclaim deleted, and tombstones that it collected."}},
    OpsCounterRow{
        &OpsCounters::repaired_shards,
        {"elastripe_repaired_shards_total", "Shards that were gone and were made again."}},
    OpsCounterRow{&OpsCounters::repaired_bytes,
                  {"elastripe_repaired_bytes_total", "Bytes of the shards that were made again."}},
    OpsCounterRow{&OpsCounters::moved_shards,
                  {"elastripe_moved_shards_total", "Shards that were taken to another node."}},
    OpsCounterRow{&OpsCounters::moved_bytes,
                  {"elastripe_moved_bytes_total", "Bytes of the shards that were moved."}},
    OpsCounterRow{&OpsCounters::scrubbed_objects,
                  {"elastripe_scrubbed_objects_total", "Objects that were scrubbed."}},
    OpsCounterRow{&OpsCounters::scrubbed_bytes,
                  {"elastripe_scrubbed_bytes_total", "Bytes of the shards that were scrubbed."}},
    OpsCounterRow{&OpsCounters::logged_updates,
                  {"elastripe_logged_updates_total", "Updates that went to an update log."}},
    OpsCounterRow{&OpsCounters::update_rounds,
                  {"elastripe_update_rounds_total",
                   "Rounds in which updates of an object were brought to the copies of its log."}},
    OpsCounterRow{&OpsCounters::updates_in_one_round,
                  {"elastripe_updates_in_one_round_total",
                   "Updates that tail and copies were sent at once, and that needed no more."}},
    OpsCounterRow{&OpsCounters::lost_updates,
                  {"elastripe_lost_updates_total",
                   "Objects found without updates that this proxy had acknowledged."}},
    OpsCounterRow{&OpsCounters::full_logs,
                  {"elastripe_full_update_logs_total",
                   "Times that an update found no room in the log, and waited for a fold."}},
    OpsCounterRow{&OpsCounters::full_log_us,
                  {"elastripe_full_update_log_wait_microseconds_total",
                   "Time that updates waited for room in the log, added up."}},
    OpsCounterRow{&OpsCounters::folded_logs,
                  {"elastripe_folded_logs_total", "Update logs that were folded into shards."}},
    OpsCounterRow{&OpsCounters::folded_bytes,
                  {"elastripe_folded_bytes_total", "Bytes of updates that were folded."}},
    OpsCounterRow{&OpsCounters::fold_us,
                  {"elastripe_fold_microseconds_total",
                   "Time that folds took, from the read of the log to the commit, added up."}},
    OpsCounterRow{&OpsCounters::folded_age_ms,
                  {"elastripe_folded_age_milliseconds_total",
                   "Ages of the oldest updates of logs when these were folded, added up."}},
    OpsCounterRow{
        &OpsCounters::scrub_wrong,
        {"elastripe_scrub_wrong_total",
         "Shards that a scrub found bad or wrong, and segments in which it could not tell "
         "which are."}},
};
static_assert(sizeof(OpsCounters) == kOpsCounters.size() * sizeof(uint64_t),
              "each counter has a row");

}  // namespace elastripe
