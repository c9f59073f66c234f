// Running many schedules of a scenario.
#pragma once

#include <functional>
#include <optional>

#include "tests/sim/world.h"

namespace elastripe::sim {

// How many schedules the tests run: of each random scenario (times its share), and of each rule's
// with the rule.
inline constexpr uint64_t kSeedsInContinuousIntegration = 180;
inline constexpr uint64_t kSeedsWithRules = 30;

uint64_t from_environment(const char* variable, uint64_t otherwise);
// ELASTRIPE_SIM_SEEDS, or kSeedsInContinuousIntegration.
uint64_t seeds_to_run();

struct Failure {
  uint64_t seed = 0;
  Fault fault = Fault::kNone;
  std::string what;
};
struct Campaign {
  Totals totals;
  std::array<uint64_t, kFaults> faults{};  // by Fault
  std::vector<Failure> failures;           // the first few
  std::vector<Failure> given_up;           // as more had failed than the promise covers
};

// Runs seeds first .. first + count - 1, until `stop_after` failures that `counts`: all if it is
// empty. `on_history` is given what the clients saw in each.
Campaign run_seeds(const Scenario& scenario, uint64_t first, uint64_t count, size_t stop_after,
                   const std::function<bool(Fault)>& counts = {},
                   const std::function<void(uint64_t seed, const History&)>& on_history = {});

// The report's lines: histories, operations, unknowns, kills, acknowledged writes, lost, stale, ...
std::string report(const Campaign& campaign);

}  // namespace elastripe::sim
