// Changes that are derived from the present value: append, prepend, incr, decr. On inline records
// the head does them; on striped ones they are read, change, and a PUT under the version that was
// read.
#pragma once

#include "proxy/ops/outcome.h"

namespace elastripe {

// append and prepend, with the key's lock held.
Task<Result<StoreOutcome>> extend_object(OpsContext& ops, StoreRequest request, TimePoint deadline);

}  // namespace elastripe
