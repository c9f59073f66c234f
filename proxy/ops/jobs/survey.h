// Survey: which objects lack shards, and which lack so many that they can not be read any more.
// Crashes leave such objects behind: their records are synced to other nodes, their shards are not.
#pragma once

#include <vector>

#include "proxy/ops/context.h"

namespace elastripe::jobs {

struct SurveyReport {
  uint64_t objects = 0;  // striped ones that were looked at
  // How many of these survive so many further failures, by that number; those that are lost are in
  // none of them. Of shards on nodes that do not answer nothing is counted on.
  std::vector<uint64_t> surviving;
  uint64_t lacking = 0;     // lack shards, and can be read all the same
  uint64_t lost = 0;        // lack too many, for good; those that were forgotten included
  uint64_t forgotten = 0;   // of these: deleted, as the operator has accepted their loss
  bool is_complete = true;  // else some nodes did not answer, or a deletion did not come through
};

// All striped objects of the partitions that are not LOST, a page of records after the other:
// memory is bounded by a page, and only the presence of shards is asked for. A shard is gone for
// good if its node's memory is lost, or if the node answers and has it not; what nodes do not
// answer for is neither there nor gone. With `forgets`, a lost object is deleted, if it is still
// the same one. Errors: kStaleEpoch: `map` is over; kCancelled: shutdown; a tail that does not
// answer.
Task<Result<SurveyReport>> survey_objects(OpsContext& ops, MapPtr map, bool forgets);

}  // namespace elastripe::jobs
