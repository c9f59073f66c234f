// Fold: takes what lies in the update log of an object into its shards. docs/updates.md, "Folding".
//
// Shards are made anew at the nodes that have them, out of the old ones and of what has changed
// (SHARD_PATCH), and one compare-and-set of the record names them, together with the LSN up to
// which they have the log. So readers meet the old shards with the log over them, or the new ones,
// and the homes drop the log's bytes with the record that they have become superfluous with. A
// segment of which a shard is missing is written again, whole.
#pragma once

#include <string>

#include "proxy/ops/context.h"

namespace elastripe::objects {

enum class FoldEnd : uint8_t {
  kFolded,   // all that was in the log when it was read
  kPart,     // the same of some segments: it took long
  kNothing,  // there is no log, or no object
  kAgain,    // the object was changed meanwhile
};

// Errors: those of reads and commits; nothing is lost by any, and what was staged is deleted, or
// reclaimed if the outcome is unknown.
// `takes`: other such folds of the object find nothing for some seconds, so that recyclers of many
// proxies do not do the same work; nor does this one if another has begun.
Task<Result<FoldEnd>> fold_object(OpsContext& ops, std::string key, TimePoint deadline,
                                  bool takes = false);

}  // namespace elastripe::objects
