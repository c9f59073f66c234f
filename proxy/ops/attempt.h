// Attempts: every try of a flow is pinned to one map (rule 6a). When the map turns out to be over,
// or a node of it is gone, the flow waits for a newer one and tries again, until its deadline.
#pragma once

#include "proxy/ops/context.h"

namespace elastripe {

// The map to try under. kUnavailable if this proxy is not serving, with the reason.
Result<MapPtr> current_map(const OpsContext& ops);

// After a try under `tried` failed with `error`: whether trying again can help. True for errors
// that say that the map is over or that a node did not answer.
bool is_worth_retrying(const Error& error);

// Waits until there is a newer map than `tried`, or a moment has passed (a lease may be granted, a
// node may answer again). `error`, what the try failed with, is what it returns once the deadline
// has come, and at once if trying again can not help.
Task<Result<void>> before_retry(OpsContext& ops, MapPtr tried, Error error, TimePoint deadline);

// How an operation ends that may or may not have taken effect, or may yet; counted.
std::unexpected<Error> unknown_outcome(OpsContext& ops, std::string why);

// Of what is asked now.
TimePoint fresh_deadline(const OpsContext& ops);

// The deadline of one call: the node's share of what is left.
TimePoint call_deadline(const OpsContext& ops, TimePoint deadline);

// Neither a tombstone nor expired.
bool is_live_now(const OpsContext& ops, const node::Record& record);

}  // namespace elastripe
