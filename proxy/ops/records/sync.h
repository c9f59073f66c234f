// Sync: after the homes of a partition have changed, every home gets the newest copy of every
// record before it answers for it (rule 3).
#pragma once

#include "proxy/ops/context.h"

namespace elastripe::records {

// One key, on access: reads it from all live sources and homes, stores the maximum and the floor on
// all homes, marks it synced on them. For flows that met NOT_SYNCED under `map`.
// Errors: those of the calls; kStaleEpoch if the map is over; kLost if the partition is, or if
// every copy that may be the newest was damaged;
// kUnavailable if a home lacks room for it: the decider will make a map without that home.
Task<Result<void>> sync_key(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline);

struct SyncEnd {
  size_t lost_waiting = 0;  // LOST partitions with revived keys that some home lacks room for
};

// Every partition of `map` that is not synced, in the background, a window of them at a time: reads
// what versions sources and homes have, brings the homes what they lack, marks. What has the fewest
// copies is first. Of a LOST partition only the keys that were written since are synced, one by
// one. A node that does not answer holds up its own partitions only. Returns when all is done that
// can be, or with the first error (the caller starts again; what is marked by then is not done
// twice); kNoSpace if homes lack room. A record that nobody has intact is
// lost at all homes afterwards. Once `*stop` is true it marks nothing more and returns kCancelled.
Task<Result<SyncEnd>> sync_partitions(OpsContext& ops, MapPtr map, const bool* stop = nullptr);

}  // namespace elastripe::records
