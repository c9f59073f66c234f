// Orphans: shards that no record refers to, and nobody is told to delete: of abandoned uploads and
// transitions, and superseded ones whose deletion was lost with its proxy (rules 7 and 8).
#pragma once

#include <vector>

#include "proxy/ops/jobs/reclaim_steps.h"

namespace elastripe::jobs {

// An upload counts as abandoned when none of its shards is younger than so many of its idle limits.
// A session closes a client only when one segment takes it the whole limit; beside that an upload
// may wait as long for memory that other clients hold until they are closed, and write a segment
// again when the map changes. None of that is its client's fault.
inline constexpr int kAbandonedAfter = 3;

// Goes round the partitions, a window of them at a time: first reads which shards the records of
// the window refer to, then lists the shards of its keys on all nodes. What is left over is judged
// transaction by transaction: if none of its shards is young, the key is fenced, and what the
// fenced record does not refer to goes after the grace.
class OrphanSweep {
 public:
  explicit OrphanSweep(OpsContext& ops);

  // Goes on where the last call has ended, whatever the map was, until it has been round once or
  // `until` has come. What a node does not answer for is left to later calls. Errors are those that
  // end a round.
  Task<Result<void>> run(MapPtr map, const std::vector<bool>& synced, TimePoint until,
                         ReclaimReport& report);

 private:
  OpsContext& ops_;
  uint64_t next_;  // partition, modulo their number; proxies that die often begin anywhere
  size_t width_;   // of the next window, in partitions
};

}  // namespace elastripe::jobs
