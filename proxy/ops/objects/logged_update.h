// An update through the log of its object: the tail numbers it, the other copies store it, then or
// at the same time. docs/updates.md, "An update step by step".
#pragma once

#include <optional>

#include "proxy/ops/objects/outcome.h"

namespace elastripe::objects {

// `bytes`: at most node::kMaxLoggedBytes, not empty. Nothing: the update is not for the log, or
// there is no room in it; nothing was done. Errors: as of update_object().
Task<Result<std::optional<UpdateOutcome>>> update_log(OpsContext& ops, const UpdateRequest& request,
                                                      Buffer bytes, TimePoint deadline);

}  // namespace elastripe::objects
