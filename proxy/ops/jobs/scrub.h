// SCRUB: do an object's shards say the same, and the copies of its record? Parity is compared with
// data by the fingerprints that the nodes tell (coding/fingerprint.h), so that kilobytes cross the
// network: what checksums of single shards can not tell, such as parities of another generation
// than the record says.
#pragma once

#include <string>
#include <vector>

#include "coding/codec.h"
#include "proxy/ops/context.h"

namespace elastripe::jobs {

struct SegmentScrub {
  // Shard indexes, ascending.
  std::vector<uint8_t> missing;      // gone
  std::vector<uint8_t> bad;          // there, but failing their checksums
  std::vector<uint8_t> unreachable;  // their node does not answer, and may have them
  // Intact by their checksums, but not what the other shards make them.
  std::vector<uint8_t> wrong;
  // There are others that do not fit together, and nothing tells which are wrong.
  bool has_unexplained = false;
  // The data shards are what the client wrote, by the segment's checksum. Looked at when all of
  // them are there.
  bool data_matches = true;

  bool is_clean() const {
    return missing.empty() && bad.empty() && unreachable.empty() && wrong.empty() &&
           !has_unexplained && data_matches;
  }
  // What has to be made again out of the others.
  coding::ShardSet to_restore() const;
};

struct ScrubReport {
  RecordPtr record;  // null: no object. The segments are those of its content
  std::vector<SegmentScrub> segments;
  // Homes whose copy of the record is another one than the tail's, damaged or not there. It may be
  // on its way.
  std::vector<NodeId> unlike;
  uint64_t bytes = 0;  // of the shards that were looked at, whether they were sent or not

  bool is_clean() const;
};

// Looks at one version of the object, segment by segment; whoever overwrites it or takes it to
// another k meanwhile makes it start again, until the deadline; each segment has request_timeout.
// Where not all members of the cluster know fingerprints, all shards are read; memory: one
// segment's shards, out of ops.memory.staged. Errors: as of reads.
Task<Result<ScrubReport>> scrub_object(OpsContext& ops, std::string key, TimePoint deadline);

// Takes the record, as it is, to all its homes: those that were unlike the others have it then. If
// it was changed meanwhile, that has done so. Errors: those of a commit.
Task<Result<void>> rewrite_record(OpsContext& ops, std::string key, RecordPtr record);

}  // namespace elastripe::jobs
