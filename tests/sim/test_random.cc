// Random schedules with the right rules: no seed may fail. ELASTRIPE_SIM_SEEDS (schedules of each
// scenario; of a rule's as much less) and ELASTRIPE_SIM_FIRST choose others; scripts/simulate runs
// millions.
#include <iostream>
#include <string>

#include "catch2/catch.hpp"
#include "proxy/base/log.h"
#include "tests/sim/runner.h"

namespace elastripe::sim {
namespace {

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
    // A schedule that does nothing proves nothing.
    const Totals& totals = campaign.totals;
    CHECK(totals.acknowledged_writes > 5 * totals.schedules);
    if (scenario.expect.fill_nodes) CHECK(totals.refused_for_memory > 5 * totals.schedules);
    if (scenario.expect.short_of_room) CHECK(totals.short_of_room > totals.schedules / 5);
    if (scenario.cluster.degraded_writes) CHECK(totals.ops.degraded_writes > totals.schedules);
    if (scenario.workload.transitions > 0) CHECK(totals.transitions > totals.schedules / 4);
    if (scenario.workload.weights[static_cast<size_t>(Verb::kUpdate)] > 0) {
      CHECK(totals.ops.logged_updates > 2 * totals.schedules);
      if (scenario.cluster.fold_after > Duration::zero()) {
        CHECK(totals.ops.folded_logs > totals.schedules);
      }
    }
    if (scenario.workload.rebalances > 0) CHECK(totals.ops.moved_shards > totals.schedules);
    if (scenario.workload.streams.share > 0.5) {
      CHECK(totals.streams > 10 * totals.schedules);
      CHECK(totals.cut_uploads > totals.schedules / 2);
      CHECK(totals.cut_reads > totals.schedules / 4);
      CHECK(totals.ops.reprepares > totals.schedules);
    }
    if (scenario.faults.burials > 1) CHECK(totals.burials > totals.schedules);
    if (scenario.faults.burials == 1) CHECK(totals.burials > totals.schedules / 2);
    if (scenario.faults.rounds > 1) {
      const auto rounds = static_cast<uint64_t>(scenario.faults.rounds);
      CHECK(2 * totals.rounds > rounds * totals.schedules);
      CHECK(totals.node_kills > totals.rounds);
    }
    if (scenario.faults.repairer_kills > 0) CHECK(totals.repairer_kills > totals.schedules / 2);
    if (scenario.faults.joiners > 0) CHECK(totals.joiners > totals.schedules);
    if (scenario.faults.member_changes > 0) {
      CHECK(totals.members_added > totals.schedules / 2);
      CHECK(totals.members_drained > totals.schedules / 2);
      if (scenario.faults.changes_of_mind > 0) {
        CHECK(totals.members_refilled > totals.schedules);
      } else if (scenario.faults.until * scenario.faults.rounds >= std::chrono::seconds(4)) {
        // A drain takes some time.
        CHECK(totals.members_removed > totals.schedules / 10);
      }
    }
    if (scenario.faults.upgrades) {
      const auto nodes = static_cast<uint64_t>(scenario.cluster.nodes);
      CHECK(totals.upgrades > totals.schedules * nodes / 2);
    }
    if (scenario.faults.strays > 0) CHECK(totals.strays > totals.schedules / 2);
    if (scenario.faults.forced > 0) CHECK(totals.forced > totals.schedules);
    if (scenario.faults.restarts > 0) CHECK(totals.restarts > totals.schedules / 2);
    if (scenario.faults.clock_steps > 0) CHECK(totals.clock_steps > 2 * totals.schedules);
    if (scenario.faults.node_sticks > 0) CHECK(totals.node_sticks > totals.schedules);
    if (scenario.faults.bit_flips > 0) CHECK(totals.bit_flips > totals.schedules / 2);
    if (scenario.expect.accept_loss) CHECK(totals.lost_keys > totals.schedules / 10);
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
