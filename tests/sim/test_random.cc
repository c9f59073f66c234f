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
    // What few schedules do, as under a sanitizer, varies much: they must do half as much.
    constexpr uint64_t kMany = 90;
    const uint64_t schedules = totals.schedules < kMany ? totals.schedules / 2 : totals.schedules;
    CHECK(totals.acknowledged_writes > 5 * schedules);
    if (scenario.expect.fill_nodes) CHECK(totals.refused_for_memory > 5 * schedules);
    if (scenario.expect.short_of_room) CHECK(totals.short_of_room > schedules / 5);
    if (scenario.cluster.degraded_writes) CHECK(totals.ops.degraded_writes > schedules);
    if (scenario.workload.transitions > 0) CHECK(totals.transitions > schedules / 4);
    if (scenario.workload.weights[static_cast<size_t>(Verb::kUpdate)] > 0) {
      CHECK(totals.ops.logged_updates > 2 * schedules);
      if (scenario.cluster.fold_after > Duration::zero()) {
        CHECK(totals.ops.folded_logs > schedules);
      } else if (totals.schedules >= kMany) {
        CHECK(totals.drained_logs > schedules / 20);  // most logs are empty by then
      }
    }
    if (scenario.cluster.node_memory.log_units < NodeMemory{}.log_units) {
      CHECK(totals.ops.full_logs > schedules);
    }
    // What two copies lose together explains any history, so such schedules prove little.
    CHECK(4 * totals.unchecked <= 3 * totals.schedules);
    if (scenario.workload.rebalances > 0) CHECK(totals.ops.moved_shards > schedules);
    if (scenario.workload.streams.share > 0.5) {
      CHECK(totals.streams > 10 * schedules);
      CHECK(totals.cut_uploads > schedules / 2);
      CHECK(totals.cut_reads > schedules / 4);
      CHECK(totals.ops.reprepares > schedules);
    }
    if (scenario.faults.burials > 1) CHECK(totals.burials > schedules);
    if (scenario.faults.burials == 1) CHECK(totals.burials > schedules / 2);
    if (scenario.faults.rounds > 1) {
      const auto rounds = static_cast<uint64_t>(scenario.faults.rounds);
      CHECK(2 * totals.rounds > rounds * schedules);
      CHECK(totals.node_kills > totals.rounds);
    }
    if (scenario.faults.repairer_kills > 0) CHECK(totals.repairer_kills > schedules / 2);
    if (scenario.faults.joiners > 0) CHECK(totals.joiners > schedules);
    if (scenario.faults.settings_changes > 0) {
      CHECK(totals.settings_changed > schedules / 4);
      CHECK(totals.settings_unknown > schedules / 4);
    }
    if (scenario.workload.jobs > 0) {
      CHECK(totals.jobs_begun > 2 * schedules);
      CHECK(totals.jobs_cancelled > schedules / 2);
      CHECK(totals.jobs_gone_on > schedules / 2);
    }
    if (scenario.faults.etcd_outages > 0) {
      CHECK(totals.elected > schedules / 2);
      CHECK(totals.etcd_outages > schedules / 2);
      CHECK(totals.etcd_partings > schedules / 2);
      CHECK(totals.etcd_ends > schedules / 20);
    }
    if (scenario.faults.member_changes > 0) {
      CHECK(totals.members_added > schedules / 2);
      CHECK(totals.members_drained > schedules / 2);
      if (scenario.faults.changes_of_mind > 0) {
        CHECK(totals.members_refilled > schedules);
      } else if (scenario.faults.until * scenario.faults.rounds >= std::chrono::seconds(4)) {
        // A drain takes some time, and rounds are often over sooner: most of their schedules remove
        // nothing.
        if (scenario.faults.rounds == 1 || totals.schedules >= kMany) {
          CHECK(totals.members_removed > schedules / 10);
        }
      }
    }
    if (scenario.faults.upgrades) {
      const auto nodes = static_cast<uint64_t>(scenario.cluster.nodes);
      CHECK(totals.upgrades > schedules * nodes / 2);
    }
    if (scenario.faults.strays > 0) CHECK(totals.strays > schedules / 2);
    if (scenario.faults.forced > 0) CHECK(totals.forced > schedules);
    if (scenario.faults.restarts > 0) CHECK(totals.restarts > schedules / 2);
    if (scenario.faults.clock_steps > 0) CHECK(totals.clock_steps > 2 * schedules);
    if (scenario.faults.wrong_machines > 0) {
      CHECK(totals.wrong_deciders > schedules / 10);
      CHECK(totals.ops.reclaimed_records > schedules);
    }
    if (scenario.faults.node_sticks > 0) CHECK(totals.node_sticks > schedules);
    if (scenario.faults.bit_flips > 0) CHECK(totals.bit_flips > schedules / 2);
    if (scenario.expect.accept_loss) CHECK(totals.lost_keys > schedules / 10);
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
