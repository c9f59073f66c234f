// PUT: the one way in which a whole value becomes a committed record, inline or striped.
#pragma once

#include "proxy/ops/objects/staging_memory.h"
#include "proxy/ops/objects/value.h"
#include "proxy/ops/records/commit.h"

namespace elastripe::objects {

struct Put {
  records::Commit commit;  // key and condition; the content and the base are filled in
  uint32_t flags = 0;
  uint32_t exptime = 0;
  ValueSource* value = nullptr;
  StagingMemory memory{};  // of a striped value
  // Takes the key's lock when a striped value is there: it may be long in coming.
  bool locks_late = false;
};

// Writes the value the way its pool says and commits it, under newer and newer maps until the
// deadline, which moves with a value that comes in parts (upload()). Superseded shards are deleted
// after a grace; those of a refused PUT at once. Errors: kUnknownOutcome: may or may not take
// effect. All others: definitely not stored. `request` lives until it has ended, and is used up.
Task<Result<records::CommitResult>> put(OpsContext& ops, const Pool& pool, Put& request,
                                        TimePoint deadline);

// The cas unique of the value that it made; 0 if others have followed, so that nobody knows.
uint64_t cas_after(std::string_view key, const records::CommitResult& committed);

// Takes note of what a commit replaced and of what it taught: for commits that do not go through
// put.
void after_commit(OpsContext& ops, std::string_view key, const records::CommitResult& result);

}  // namespace elastripe::objects
