// What the baselines do with the parities of a segment, once its data has changed: the one thing in
// which fo, pl, plr and cord differ. docs/updates.md, "Baselines".
#pragma once

#include <vector>

#include "coding/delta.h"
#include "proxy/cluster/pool.h"
#include "proxy/ops/objects/baselines/shard_updates.h"

namespace elastripe::objects {

// A segment of which some bytes change.
struct ChangedSegment {
  coding::Scheme scheme;
  node::Segment segment;
  std::vector<ShardUpdate> data;      // what its data shards are to be told, and have answered
  std::vector<ShardUpdate> parities;  // made of these answers
  std::vector<ShardUpdate> flushed;   // what a full collector had for all parities
};

// Makes `parities`.
Task<Result<void>> make_parity_updates(OpsContext& ops, UpdateMethod method,
                                       ChangedSegment& changed);
// Sends them, and flushes the collector that is full. After an error it may be called again, for
// what is left. Errors as of send_updates().
Task<Result<void>> update_parities(OpsContext& ops, MapPtr map, ChangedSegment& changed,
                                   TimePoint deadline);

// Has all that is kept for the segment's parities added to them, as far as their nodes are up.
Task<Result<void>> drain_parities(OpsContext& ops, MapPtr map, coding::Scheme scheme,
                                  node::Segment segment, TimePoint deadline);

}  // namespace elastripe::objects
