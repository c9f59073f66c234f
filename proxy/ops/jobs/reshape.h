// Reshape: the commit of a job that gives some segments of an object other shards, of the same
// value. Whoever does that stages the shards first, and deletes then what is not referred to.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proxy/ops/context.h"

namespace elastripe::jobs {

struct Reshape {
  std::string key;
  RecordPtr record;                                        // what the shards were staged for
  std::vector<std::pair<size_t, node::Segment>> segments;  // place in the table, and the new one
  RecordPtr committed = {};                                // once it is
};

enum class ReshapeEnd : uint8_t {
  kCommitted,
  kOverwritten,  // the object is another one now, with shards of its own
  kAgain,        // nothing committed: start from the newest record
};

// Whether `content` still has the shards that the reshape began with.
inline bool has_same_shards(const Reshape& reshape, const node::RecordContent& content) {
  return content.segments == reshape.record->content.segments;
}

// One compare-and-set of the record, under the map under which all shards were staged. A touch in
// between is no reason to give up, nor is an update of other segments: those of the reshape are the
// same. After another reshape of them, of a proxy that died maybe before its commit had reached the
// tail, which is where the record was read, or after an update, what lacks shards has to be looked
// for again. Errors: those of commit(); kUnknownOutcome: the record may refer to the new
// shards, or may yet.
Task<Result<ReshapeEnd>> commit_reshape(OpsContext& ops, const MapPtr& map, Reshape& reshape,
                                        TimePoint deadline);

}  // namespace elastripe::jobs
