// New shards out of old ones, at the nodes that have them, of which some bytes are others
// (SHARD_PATCH): the data shards' nodes answer by how much these have changed, and of that the
// parities are made (coding/delta.h). Nothing refers to the new shards yet: a commit of the record
// is to name them.
#pragma once

#include <string>
#include <vector>

#include "proxy/ops/objects/overlay.h"
#include "proxy/ops/shards.h"

namespace elastripe::objects {

// A segment on its way: what it is now, and what it shall be.
struct SegmentPatch {
  std::string key;
  coding::Scheme scheme;
  node::Segment before;
  node::Segment after;
  uint64_t begin = 0;  // in the object

  // Those that differ: what nothing refers to once `after` is committed, and what nothing does if
  // it never is.
  std::vector<ShardsOnNode> old_shards() const;
  std::vector<ShardsOnNode> new_shards() const;
};

enum class PatchEnd : uint8_t {
  kPatched,  // `after` names the new shards, and has their checksum if `before` had one
  // A shard is not there, or not intact, or its node has no room: the segment has to be written
  // again.
  kMissing,
};
// `pieces`: ascending, disjoint, of the segment. After an error, and kMissing, some of new_shards()
// may be there. Errors: those of calls.
Task<Result<PatchEnd>> patch_segment(OpsContext& ops, MapPtr map, SegmentPatch& patch,
                                     std::vector<Overlaid> pieces, node::Id128 txid,
                                     TimePoint deadline);

// In the background, of patches that were certainly not committed, and never will be: deletes their
// new shards at once.
void drop_patch(OpsContext& ops, const SegmentPatch& patch);

}  // namespace elastripe::objects
