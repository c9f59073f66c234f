// PUT: the one way in which a whole value becomes a committed record, inline or striped.
#pragma once

#include "proxy/ops/commit.h"
#include "proxy/ops/value.h"

namespace elastripe {

struct Put {
  Commit commit;  // key and condition; the content and the base are filled in
  uint32_t flags = 0;
  uint32_t exptime = 0;
  Buffer value;
  // Instead of `value`, of one that is striped.
  ValueSource* source = nullptr;
  // Where a striped value's segments take their memory from; null: the caller has reserved it.
  Semaphore* memory = nullptr;
  // Takes the key's lock when a striped value is there: it may be long in coming.
  bool locks_late = false;
};

// Writes the value the way its pool says and commits it, under newer and newer maps until the
// deadline, which moves with a value that comes in parts (upload()). Superseded shards are deleted
// after a grace; those of a refused PUT at once. Errors: kUnknownOutcome: may or may not take
// effect. All others: definitely not stored. `request` lives until it has ended, and is used up.
Task<Result<CommitResult>> put(OpsContext& ops, const Pool& pool, Put& request, TimePoint deadline);

// Takes note of what a commit replaced and of what it taught: for commits that do not go through
// put.
void after_commit(OpsContext& ops, std::string_view key, const CommitResult& result);

}  // namespace elastripe
