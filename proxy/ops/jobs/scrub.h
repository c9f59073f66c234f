// SCRUB: do an object's shards say the same? Every shard is read, the parities are computed again
// from the data, and compared: what checksums of single shards can not tell, such as parities of
// another generation than the record says.
#pragma once

#include <string>
#include <vector>

#include "proxy/ops/context.h"

namespace elastripe::jobs {

struct SegmentScrub {
  // Shard indexes, ascending.
  std::vector<uint8_t> missing;      // gone, or failing their checksums
  std::vector<uint8_t> unreachable;  // their node does not answer, and may have them
  // Parities that are not what the data makes them. Looked for when every data shard was read.
  std::vector<uint8_t> wrong;
  // The data shards are what the client wrote, by the segment's checksum.
  bool data_matches = true;

  bool is_clean() const {
    return missing.empty() && unreachable.empty() && wrong.empty() && data_matches;
  }
};

struct ScrubReport {
  RecordPtr record;  // null: no object. The segments are those of its content
  std::vector<SegmentScrub> segments;

  bool is_clean() const;
};

// Looks at one version of the object, segment by segment; whoever overwrites it or takes it to
// another k meanwhile makes it start again, until the deadline; each segment has request_timeout.
// Memory: one segment's shards, out of ops.memory.staged.
// Errors: as of reads.
Task<Result<ScrubReport>> scrub_object(OpsContext& ops, std::string key, TimePoint deadline);

}  // namespace elastripe::jobs
