// The way of updates from the tail, which has numbered them, to the other copies of the log.
#pragma once

#include <string>

#include "proxy/ops/records/log_copies.h"

namespace elastripe::records {

// Stores `update` at all copies of the log of `value`, together with those of `told.unsettled` that
// they lack. While a round for the key is on its way from this thread, others wait, and go in the
// next one together. Errors, and what it returns: as of store_at_copies().
Task<Result<StoredCopies>> store_update(OpsContext& ops, MapPtr map, std::string key,
                                        uint64_t value, NumberedUpdate update,
                                        node::LogAppendReply told, TimePoint deadline);

}  // namespace elastripe::records
