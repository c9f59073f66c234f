// Random schedules with the right rules: no seed may fail. ELASTRIPE_SIM_SEEDS (schedules of each
// scenario; of a rule's as much less) and ELASTRIPE_SIM_FIRST choose others; scripts/simulate runs
// millions.
#include <cmath>
#include <iostream>
#include <string>

#include "catch2/catch.hpp"
#include "proxy/base/log.h"
#include "tests/sim/runner.h"

namespace elastripe::sim {
namespace {

// How often schedules must do, at the least, what each is to do more than `rate` times: a schedule
// that does nothing proves nothing. Few schedules, as under a sanitizer, are left to chance: half
// as much is enough, less two standard deviations of a count (its square root), which for what is
// rare is nothing at all; many schedules tell of that.
uint64_t least(double rate, uint64_t schedules) {
  constexpr uint64_t kMany = 90;
  const double expected = rate * static_cast<double>(schedules);
  if (schedules >= kMany) return static_cast<uint64_t>(expected) + 1;
  const double by_chance = expected / 2 - 2 * std::sqrt(expected / 2);
  return by_chance < 0 ? 0 : static_cast<uint64_t>(by_chance) + 1;
}

TEST_CASE("random schedules keep every promise", "[random]") {
  set_log_level(LogLevel::kOff);
  const uint64_t seeds = seeds_to_run();
  const uint64_t first = from_environment("ELASTRIPE_SIM_FIRST", 1);
  for (const Scenario& scenario : scenarios()) {
    const auto share = static_cast<uint64_t>(static_cast<double>(seeds) * scenario.share);
    const Campaign campaign = run_seeds(scenario, first, share, 3);
    std::cout << scenario.name << ", seeds from " << first << ":\n" << report(campaign);
    for (const Failure& failure : campaign.failures) {
      UNSCOPED_INFO("seed " << failure.seed << ": " << name(failure.fault) << ": " << failure.what
                            << "\n  scripts/simulate --scenario " << scenario.name << " --trace "
                            << failure.seed);
    }
    CHECK(campaign.failures.empty());
    CHECK(campaign.faults[static_cast<size_t>(Fault::kUndecided)] == 0);
    const Totals& totals = campaign.totals;
    const auto often = [&](double rate) { return least(rate, totals.schedules); };
    CHECK(totals.acknowledged_writes >= often(5));
    if (scenario.expect.fill_nodes) CHECK(totals.refused_for_memory >= often(5));
    if (scenario.expect.short_of_room) CHECK(totals.short_of_room >= often(0.2));
    if (scenario.cluster.degraded_writes) CHECK(totals.ops.degraded_writes >= often(1));
    if (scenario.workload.transitions > 0) CHECK(totals.transitions >= often(0.25));
    if (scenario.workload.weights[static_cast<size_t>(Verb::kUpdate)] > 0) {
      CHECK(totals.ops.logged_updates >= often(2));
      if (scenario.cluster.fold_after > Duration::zero()) {
        CHECK(totals.ops.folded_logs >= often(1));
      } else {
        CHECK(totals.drained_logs >= often(0.05));  // most logs are empty by then
      }
    }
    if (scenario.cluster.node_memory.log_units < NodeMemory{}.log_units) {
      CHECK(totals.ops.full_logs >= often(1));
    }
    // What two copies lose together explains any history, so such schedules prove little.
    CHECK(totals.schedules - totals.unchecked >= often(0.25));
    if (scenario.workload.rebalances > 0) CHECK(totals.ops.moved_shards >= often(1));
    if (scenario.workload.streams.share > 0.5) {
      CHECK(totals.streams >= often(10));
      CHECK(totals.cut_uploads >= often(0.5));
      CHECK(totals.cut_reads >= often(0.25));
      CHECK(totals.ops.reprepares >= often(1));
    }
    if (scenario.faults.burials > 1) CHECK(totals.burials >= often(1));
    if (scenario.faults.burials == 1) CHECK(totals.burials >= often(0.5));
    if (scenario.faults.rounds > 1) {
      CHECK(totals.rounds >= often(0.5 * scenario.faults.rounds));
      CHECK(totals.node_kills > totals.rounds);
    }
    if (scenario.faults.repairer_kills > 0) CHECK(totals.repairer_kills >= often(0.5));
    if (scenario.faults.joiners > 0) CHECK(totals.joiners >= often(1));
    if (scenario.faults.settings_changes > 0) {
      CHECK(totals.settings_changed >= often(0.25));
      CHECK(totals.settings_unknown >= often(0.25));
    }
    if (scenario.workload.jobs > 0) {
      CHECK(totals.jobs_begun >= often(2));
      CHECK(totals.jobs_cancelled >= often(0.5));
      CHECK(totals.jobs_gone_on >= often(0.5));
    }
    if (scenario.faults.etcd_outages > 0) {
      CHECK(totals.elected >= often(0.5));
      CHECK(totals.etcd_outages >= often(0.5));
      CHECK(totals.etcd_partings >= often(0.5));
      CHECK(totals.etcd_ends >= often(0.05));
    }
    if (scenario.faults.member_changes > 0) {
      CHECK(totals.members_added >= often(0.5));
      CHECK(totals.members_drained >= often(0.5));
      if (scenario.faults.changes_of_mind > 0) {
        CHECK(totals.members_refilled >= often(1));
      } else if (scenario.faults.until * scenario.faults.rounds >= std::chrono::seconds(4)) {
        // A drain takes some time: most schedules of short rounds remove nothing.
        CHECK(totals.members_removed >= often(0.1));
      }
    }
    if (scenario.faults.upgrades) {
      CHECK(totals.upgrades >= often(0.5 * scenario.cluster.nodes));
    }
    if (scenario.faults.strays > 0) CHECK(totals.strays >= often(0.5));
    if (scenario.faults.forced > 0) CHECK(totals.forced >= often(1));
    if (scenario.faults.restarts > 0) CHECK(totals.restarts >= often(0.5));
    if (scenario.faults.clock_steps > 0) CHECK(totals.clock_steps >= often(2));
    if (scenario.faults.wrong_machines > 0) {
      CHECK(totals.wrong_deciders >= often(0.1));
      CHECK(totals.ops.reclaimed_records >= often(1));
    }
    if (scenario.faults.node_sticks > 0) CHECK(totals.node_sticks >= often(1));
    if (scenario.faults.bit_flips > 0) CHECK(totals.bit_flips >= often(0.5));
    if (scenario.expect.accept_loss) CHECK(totals.lost_keys >= often(0.1));
  }
}

TEST_CASE("one seed reproduces a whole run", "[random]") {
  set_log_level(LogLevel::kOff);
  for (const Scenario& scenario : scenarios()) {
    const RunResult once = World(scenario, 7, true).run();
    const RunResult again = World(scenario, 7, true).run();
    CHECK(once.totals.events == again.totals.events);
    CHECK(once.trace == again.trace);
  }
}

}  // namespace
}  // namespace elastripe::sim
