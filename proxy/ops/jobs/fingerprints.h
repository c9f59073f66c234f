// Fingerprints of a segment's shards as the nodes have them, and what they tell: which shards are
// not what the others make them (coding/fingerprint.h).
#pragma once

#include <vector>

#include "coding/fingerprint.h"
#include "coding/segment.h"
#include "proxy/ops/context.h"

namespace elastripe::jobs {

struct SegmentFingerprints {
  coding::ShardSet missing;      // for good
  coding::ShardSet bad;          // there, but failing the checksum of a page
  coding::ShardSet unreachable;  // their node does not answer, and may have them
  // By shard, then by block; empty of the shards above.
  std::vector<std::vector<coding::Fingerprint>> shards;
  std::vector<std::vector<uint32_t>> checksums;  // CRC32C
  uint64_t bytes = 0;                            // of the shards that are there
};

// Asks each node for those of its shard, under a fresh seed. Where not all members of the cluster
// know how, the shards are read instead, out of ops.memory.staged; bad ones are missing then.
// Errors: kStaleEpoch: the map is over. kInvalid: the record's geometry. kCancelled: shutdown.
Task<Result<SegmentFingerprints>> take_fingerprints(OpsContext& ops, MapPtr map,
                                                    coding::Scheme scheme, node::Segment segment,
                                                    TimePoint deadline);

// What they tell of a segment.
struct SegmentVerdict {
  // Shards that are not what the others make them: parities, if the data is what the client wrote,
  // else those that the rest outvotes.
  coding::ShardSet wrong;
  bool has_unexplained = false;  // there are others, and nothing tells which
  bool data_matches = true;      // what the client wrote, by the segment's checksum; or not known
};
SegmentVerdict judge(const coding::SegmentGeometry& geometry, const node::Segment& segment,
                     const SegmentFingerprints& fingerprints);

}  // namespace elastripe::jobs
