// Changes that are derived from the present value: append, prepend, incr, decr. On inline records
// the head does them. A striped one that grows keeps most of its segments (extend_segments.h); else
// they are read, change, and a PUT under the version that was read.
#pragma once

#include "proxy/ops/objects/outcome.h"

namespace elastripe::objects {

// What append and prepend take at most: it is kept whole, to be joined with newer and newer values.
inline constexpr uint64_t kMaxExtensionBytes = 8u << 20;

// append and prepend.
Task<Result<StoreOutcome>> extend_object(OpsContext& ops, StoreRequest request, TimePoint deadline);

}  // namespace elastripe::objects
