// TOUCH, as what other flows begin with.
#pragma once

#include "proxy/ops/records/commit.h"

namespace elastripe::objects {

// Gives the object the new expiry. kNotFound or kConditionFailed: there is none.
Task<Result<records::CommitResult>> commit_touch(OpsContext& ops, std::string_view key,
                                                 uint32_t exptime, TimePoint deadline);

}  // namespace elastripe::objects
