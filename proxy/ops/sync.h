// Sync: after the homes of a partition have changed, every home gets the newest copy of every
// record before it answers for it (rule 3).
#pragma once

#include "proxy/ops/context.h"

namespace elastripe {

// One key, on access: reads it from all live sources and homes, stores the maximum and the floor on
// all homes, marks it synced on them. For flows that met NOT_SYNCED under `map`.
// Errors: those of the calls; kStaleEpoch if the map is over; kLost if the partition is, or if
// every copy that may be the newest was damaged;
// kUnavailable if a home lacks room for it: the decider will make a map without that home.
Task<Result<void>> sync_key(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline);

// Every partition of `map` that is not synced, in the background: scans the sources, stores on the
// homes, marks. Memory is bounded by a page of records a source. Of a LOST partition only the keys
// that were written since are synced, one by one. Returns when all are synced, or with an error
// (the caller starts again; what is marked by then is not done twice): kStaleEpoch if the map is
// over, kNoSpace if homes lack room, kLost if a record has no copy that is intact (these partitions
// are left out, all others synced). Once
// `*stop` is true it marks nothing more and returns kCancelled.
Task<Result<void>> sync_partitions(OpsContext& ops, MapPtr map, const bool* stop = nullptr);

}  // namespace elastripe
