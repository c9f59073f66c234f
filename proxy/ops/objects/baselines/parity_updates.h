// What the baselines do with the parities of a segment, once its data has changed: the one thing in
// which they differ. docs/updates.md, "Baselines".
#pragma once

#include <memory>
#include <vector>

#include "coding/delta.h"
#include "proxy/cluster/pool.h"
#include "proxy/ops/objects/baselines/shard_updates.h"

namespace elastripe::objects {

// A segment of which some bytes change, or have changed and its parities shall know.
struct ChangedSegment {
  coding::Scheme scheme;
  node::Segment segment;
  std::vector<ShardUpdate> data = {};      // what its data shards are told, and have answered
  std::vector<ShardUpdate> parities = {};  // made of these answers
  std::vector<ShardUpdate> flushed = {};   // what a full collector had for all parities
  // What was kept of data shards that had no room for more.
  std::unique_ptr<ChangedSegment> flush = {};
};

// Makes `parities`.
Task<Result<void>> make_parity_updates(OpsContext& ops, UpdateMethod method,
                                       ChangedSegment& changed);
// Sends them, and flushes the collector that is full. After an error it may be called again, for
// what is left. Errors as of send_updates().
Task<Result<void>> update_parities(OpsContext& ops, UpdateMethod method, MapPtr map,
                                   ChangedSegment& changed, TimePoint deadline);

// Has all that is kept for the segment's parities added to them, as far as their nodes are up.
Task<Result<void>> drain_parities(OpsContext& ops, MapPtr map, coding::Scheme scheme,
                                  node::Segment segment, TimePoint deadline);

}  // namespace elastripe::objects
