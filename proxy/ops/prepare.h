// Prepare: the first phase of a striped PUT. All shards of the object are written under a new
// data_txid; nothing refers to them until the record is committed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proxy/ops/shards.h"

namespace elastripe {

// An object being written: its segments, their parities, and which shards the nodes have confirmed.
struct StagedSegment {
  node::Segment segment;           // placement is empty before the first prepare()
  Buffer data;                     // a slice of the object
  Buffer parities;                 // m parity shards, one after the other; empty until encoded
  std::vector<bool> written;       // by shard, in the epoch of the last prepare()
  std::vector<uint32_t> checksum;  // by shard, as the node told it
};
struct StagedObject {
  std::string key;
  coding::Scheme scheme;
  bool degraded_writes = false;
  std::vector<StagedSegment> segments;
  uint32_t epoch_number = 0;  // of the last prepare(); 0: none yet
};

// Cuts the value (not empty) into the pool's segments, under a fresh data_txid.
Result<std::shared_ptr<StagedObject>> stage_object(OpsContext& ops, const Pool& pool,
                                                   std::string key, Buffer value);

// Writes every shard that `map`'s nodes do not have yet. Data shards leave before the parities are
// computed (ECFS partition encoding). Under a newer map than before, the nodes first confirm what
// they had acknowledged, and what is missing goes to spare nodes (rule 6a): after a success every
// acknowledgement is of this epoch.
// Errors: kNoSpace; kUnavailable if there are too few nodes; kStaleEpoch, kTimeout, ...: try again
// under a newer map. Call it again, or abandon().
Task<Result<void>> prepare(OpsContext& ops, MapPtr map, std::shared_ptr<StagedObject> staged,
                           TimePoint deadline);

// Deletes what was written. Only for transactions that definitely did not and never will commit.
Task<void> abandon(OpsContext& ops, std::shared_ptr<StagedObject> staged);

// The segment table of the staged object.
std::vector<node::Segment> segment_table(const StagedObject& staged);

}  // namespace elastripe
