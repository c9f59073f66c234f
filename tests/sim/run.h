// What all parts of one schedule share: its scenario, randomness, virtual time, trace, counts and
// verdict. Single-threaded; outlives every part.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "proxy/async/scope.h"
#include "tests/sim/scenario.h"
#include "tests/sim/totals.h"
#include "tests/sim/trace.h"

namespace elastripe::sim {

// What a violation is called in reports.
enum class Fault : uint8_t {
  kNone,
  kStale,     // a history that no order explains
  kLost,      // an acknowledged write is gone, or can not be read, after everything has healed
  kTorn,      // bytes that no client wrote
  kParity,    // a shard that does not match the others of its segment
  kVersions,  // cas uniques that went back or do not follow the values
  kLeak,      // shards that nothing refers to are left after reclaim
  // The cluster does not heal, a flow does not end or gives up though the cluster is at rest, a
  // whole object can not transition.
  kStuck,
  kMaps,       // a proxy serves by a map that it should not, or begins to decide beside another
  kJobs,       // a job is forgotten, begun twice, or ends otherwise than was told
  kRefused,    // a full node refuses what gives memory back, or what there is room for
  kUndecided,  // the checker gave up
};
inline constexpr size_t kFaults = 12;
const char* name(Fault fault);

inline constexpr Duration kRequestTimeout = std::chrono::seconds(3);
// Within it a calm cluster comes to rest, and what was begun ends.
inline constexpr Duration kHealLimit = std::chrono::seconds(60);

struct Run {
  Run(const Scenario& which, uint64_t seed_of_all, bool traced)
      : scenario(which),
        seed(seed_of_all),
        events(seed * 0x9e3779b97f4a7c15 + 1),
        trace(events, traced),
        random(seed * 0xd1342543de82ef95 + 2),
        clock(events) {}

  // The schedule has broken a promise: the first violation is its verdict.
  void violation(Fault broken, std::string how);
  bool is_ok() const { return fault == Fault::kNone; }
  bool goes_on() const { return is_ok() && !over; }

  // Lets events happen until the condition holds; false if it does not within the limit. Most
  // conditions look at much state: they are asked once in a while only.
  template <class Condition>
  bool until(Duration limit, Condition condition, uint64_t events_between = 16) {
    const TimePoint end = events.now() + limit;
    for (uint64_t n = 0;; ++n) {
      if (n % events_between == 0 && condition()) return true;
      if (events.now() > end || !events.run_one()) return condition();
    }
  }
  // For one that is cheap to ask: no time passes in vain.
  template <class Condition>
  bool until_promptly(Duration limit, Condition condition) {
    return until(limit, std::move(condition), 1);
  }
  void let_pass(Duration time) {
    until(time, [] { return false; });
  }
  // What the task returns; nothing if it does not end within the limit.
  template <class T>
  std::optional<T> finish(Task<T> task, Duration limit = kHealLimit) {
    const auto result = std::make_shared<std::optional<T>>();
    flows.spawn(keep_result(std::move(task), result));
    until_promptly(limit, [&] { return result->has_value(); });
    return std::move(*result);
  }

  const Scenario scenario;
  const uint64_t seed;
  EventQueue events;
  Trace trace;
  SimRandom random;
  VirtualClock clock;  // of clients, never paused
  Scope flows;         // of clients and of the audit
  bool calm = false;   // no faults: neither those that are planned nor delays
  bool over = false;   // nothing more can be asked of this schedule
  Totals totals;
  Fault fault = Fault::kNone;
  std::string what;

 private:
  template <class T>
  static Task<void> keep_result(Task<T> task, std::shared_ptr<std::optional<T>> result) {
    *result = co_await std::move(task);
  }
};

}  // namespace elastripe::sim
