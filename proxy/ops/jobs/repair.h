// REPAIR: the shards of an object that are gone are made again out of those that are left, a window
// of segments at a time (rule 28).
//
// Look: every node tells which of the object's shards it has, not whether their pages are intact.
// Restore: the bytes of each segment that lacks some are read, and what it lacks is written, to the
// node that had it, if that is back, else to a spare one, under a txid of this try. Commit: one
// compare-and-set of the record names the new places; the value and its cas stay. Before it the
// fingerprints of what was written, as the nodes have it, have to fit those of the others: nothing
// is made of a shard that is wrong.
//
// What is there, but on a node that drains, moves in the same way: its bytes are copied, and the
// shard that was there is deleted after the grace. Of a segment that also lacks shards, these go
// first, and what moves waits for the next repair.
//
// To make nodes equally full, shards move in this way too, to the nodes that a balance says.
//
// Shards on nodes that only do not answer are left alone, unless told otherwise. Readers go on; a
// write, or another repairer, that commits first wins, and what this one has staged is deleted.
#pragma once

#include <optional>
#include <string>

#include "proxy/ops/context.h"
#include "proxy/ops/jobs/balance.h"
#include "proxy/ops/jobs/job_work.h"
#include "proxy/ops/jobs/lacking.h"
#include "proxy/ops/jobs/scrub.h"

namespace elastripe::jobs {

struct RepairRequest {
  std::string key;
  GivenUp given_up = {};
  // Only what this node lacks, or had when it went; else all that is gone.
  std::optional<NodeId> on = {};
  // What a scrub found bad or wrong counts as gone, too, in segments that are as it saw them.
  const ScrubReport* scrubbed = nullptr;  // outlives the flow
  // Only shards whose move it takes, of segments that lack none; nothing is made again.
  Balance* balance = nullptr;  // outlives the flow
  // Added to as each try ends, so that it tells of errors, too; outlives the flow.
  Traffic* spent = nullptr;
};

struct RepairOutcome {
  ObjectStatus status = ObjectStatus::kDone;  // kRefused: `reason` tells what could not be restored
  std::string reason;
  uint64_t object_bytes = 0;
  uint64_t shards = 0;  // that were restored or moved
  uint64_t bytes = 0;   // of these
};

// Tries under newer and newer maps, for as long as request_timeout brings no window to its commit.
// Errors: kUnknownOutcome: the record may or may not name the shards of the last window; whatever
// happens, the object reads back, and a repair can be started again. kInvalid: not all members of
// the cluster know moved shards. kNoSpace: nodes have no room for what is left. Others: the windows
// before are done, the last is not.
Task<Result<RepairOutcome>> repair_object(OpsContext& ops, RepairRequest request);

}  // namespace elastripe::jobs
