// An update through the log of its object: the tail numbers it, the other copies store it, then or
// at the same time. docs/updates.md, "An update step by step".
#pragma once

#include <optional>

#include "proxy/ops/objects/outcome.h"

namespace elastripe::objects {

struct LoggedUpdateEnd {
  // Nothing: the update is not for the log, or there is no room in it; nothing was done.
  std::optional<UpdateOutcome> outcome = {};
  // If there was no room: later updates of the key wait while this is held (log_room.h).
  std::optional<KeyLocks::Guard> turn = {};
};

// `bytes`: at most node::kMaxLoggedBytes, not empty. Errors: as of update_object().
Task<Result<LoggedUpdateEnd>> update_log(OpsContext& ops, const UpdateRequest& request,
                                         Buffer bytes, TimePoint deadline);

}  // namespace elastripe::objects
