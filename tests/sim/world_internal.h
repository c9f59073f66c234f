// Shared by the sources of World.
#pragma once

#include "proxy/async/one_shot.h"
#include "proxy/ops/room_watch.h"
#include "tests/sim/world.h"

namespace elastripe::sim {

inline constexpr int kAuditor = -1;  // the client of the final reads
inline constexpr Duration kRequestTimeout = std::chrono::seconds(3);
// How long a client waits whose value goes part by part.
inline constexpr Duration kStreamLimit = std::chrono::seconds(20);
inline constexpr Duration kHealLimit = std::chrono::seconds(60);
// Beyond the longest wait until a node that had no room is tried again.
inline constexpr Duration kRoomLimit = RoomWatch::kLongestWait + kHealLimit;

// Bytes that tell which operation of the history they come from.
std::string unique_value(size_t operation, size_t bytes);

// An operation in flight: over when it is answered, or when its client has given it up.
struct World::Pending {
  OneShot<bool> over;
  bool is_over = false;
  uint64_t latest_ms = 0;  // of its proxy's wall clock, before that stepped
};

// Ends with kDone and how it went in `error`, or with the error.
Task<void> execute_transition(Operation& op, OpsContext& ops);

inline void add_counters(OpsCounters& sum, const OpsCounters& more) {
  sum.degraded_reads += more.degraded_reads;
  sum.degraded_writes += more.degraded_writes;
  sum.unknown_outcomes += more.unknown_outcomes;
  sum.commit_conflicts += more.commit_conflicts;
  sum.reprepares += more.reprepares;
  sum.key_syncs += more.key_syncs;
  sum.records_mended += more.records_mended;
  sum.partition_syncs += more.partition_syncs;
  sum.fences += more.fences;
  sum.reclaimed_shards += more.reclaimed_shards;
  sum.reclaimed_records += more.reclaimed_records;
}

template <class Condition>
bool World::run_until(Duration limit, Condition condition) {
  const TimePoint end = events_.now() + limit;
  // Conditions look at much state: ask once in a while only.
  for (uint64_t n = 0;; ++n) {
    if (n % 16 == 0 && condition()) return true;
    if (events_.now() > end || !events_.run_one()) return condition();
  }
}

}  // namespace elastripe::sim
