// Marks of memcached's meta commands: stale values, and who makes them anew
// (docs/client-protocol.md, "Stale values").
#pragma once

#include "proxy/ops/objects/object_read.h"
#include "proxy/ops/records/commit.h"

namespace elastripe::objects {

struct Mark {
  uint8_t marks = 0;  // all that it has then
  uint32_t exptime = 0;
  uint64_t cas = 0;  // 0: it stays; node::kNewCas: another one
};

// Gives the marks to the value that `read` has open, if no commit or update has come since: else
// kConditionFailed. Errors as of a commit, and kUnavailable while some node is of a build that has
// no marks.
Task<Result<records::CommitResult>> commit_mark(OpsContext& ops, std::string_view key,
                                                const ObjectRead& read, Mark mark,
                                                TimePoint deadline);

// kUnavailable while some node would drop marks and cas that a client gives.
Result<void> check_marks(const OpsContext& ops);

}  // namespace elastripe::objects
