#include "tests/sim/runner.h"

#include <fmt/core.h>

#include <cstdlib>

namespace elastripe::sim {

uint64_t from_environment(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

uint64_t seeds_to_run() {
  return from_environment("ELASTRIPE_SIM_SEEDS", kSeedsInContinuousIntegration);
}

Campaign run_seeds(const Scenario& scenario, uint64_t first, uint64_t count, size_t stop_after,
                   const std::function<bool(Fault)>& counts,
                   const std::function<void(uint64_t seed, const History&)>& on_history) {
  Campaign campaign;
  for (uint64_t i = 0; i < count && campaign.failures.size() < stop_after; ++i) {
    const RunResult result = World(scenario, first + i, false).run();
    if (on_history) on_history(first + i, result.history);
    campaign.totals.add(result.totals);
    if (result.totals.beyond_promise > 0)
      campaign.given_up.push_back({first + i, Fault::kNone, result.what});
    ++campaign.faults[static_cast<size_t>(result.fault)];
    // A search that was given up proves nothing, neither way: it is only counted.
    if (result.ok() || result.fault == Fault::kUndecided) continue;
    if (counts && !counts(result.fault)) continue;
    campaign.failures.push_back({first + i, result.fault, result.what});
  }
  return campaign;
}

std::string report(const Campaign& campaign) {
  const Totals& t = campaign.totals;
  const auto fault = [&](Fault which) { return campaign.faults[static_cast<size_t>(which)]; };
  std::string text = fmt::format(
      "schedules {}  histories {}  operations {}  acknowledged writes {}  unknowns {}  errors {}  "
      "transitions {}  refused {}  flushes {}  of unknown order {}\n",
      t.schedules, t.histories, t.operations, t.acknowledged_writes, t.unknowns, t.errors,
      t.transitions, t.refused_transitions, t.flushes, t.undecided_flushes);
  text += fmt::format(
      "node kills {}  stalls {}  stuck threads {}  bits flipped {}  link cuts {}  proxy kills {}  "
      "pauses {}  epochs {}\n",
      t.node_kills, t.node_stalls, t.node_sticks, t.bit_flips, t.link_cuts, t.proxy_kills,
      t.proxy_pauses, t.epochs);
  text += fmt::format(
      "rounds {}  dead for good {}  while they repaired {}  upgraded {}  added {} + {}  drained {}"
      "  and not {}  removed {}  strays {}  clock steps {}  deciders ahead {}  forced epochs {}  "
      "other pools {}  "
      "settings {} + {}  elected {}  etcd away {}  without a leader {}  for good {}\n",
      t.rounds, t.burials, t.repairer_kills, t.upgrades, t.joiners, t.members_added,
      t.members_drained, t.members_refilled, t.members_removed, t.strays, t.clock_steps,
      t.wrong_deciders, t.forced, t.restarts, t.settings_changed, t.settings_unknown, t.elected,
      t.etcd_outages, t.etcd_partings, t.etcd_ends);
  text += fmt::format("orders of jobs {}  begun {}  cancelled {}  gone on with {}\n", t.job_orders,
                      t.jobs_begun, t.jobs_cancelled, t.jobs_gone_on);
  text += fmt::format("frames {}  dropped {}  duplicated {}  late {}  events {}\n", t.frames,
                      t.dropped, t.duplicated, t.late, t.events);
  text += fmt::format(
      "streamed {}  uploads cut {}  reads cut {}\n"
      "degraded reads {}  writes {}  refused for memory {}  short of room {}  keys given up {}  "
      "conflicts {}  "
      "re-prepares {}  key syncs {}  partition syncs {}  fences {}"
      "  reclaimed shards {}  records {}\n"
      "logged updates {}  logs full {}  folded {}  histories not checked in {} schedules\n",
      t.streams, t.cut_uploads, t.cut_reads, t.ops.degraded_reads, t.ops.degraded_writes,
      t.refused_for_memory, t.short_of_room, t.lost_keys, t.ops.commit_conflicts, t.ops.reprepares,
      t.ops.key_syncs, t.ops.partition_syncs, t.ops.fences, t.ops.reclaimed_shards,
      t.ops.reclaimed_records, t.ops.logged_updates, t.ops.full_logs, t.ops.folded_logs,
      t.unchecked);
  text += fmt::format(
      "lost {}  stale {}  torn {}  parity {}  versions {}  leaks {}  stuck {}  maps {}  jobs {}  "
      "refused {} "
      " "
      "undecided {}  LOST "
      "beyond m "
      "failures {}\n",
      fault(Fault::kLost), fault(Fault::kStale), fault(Fault::kTorn), fault(Fault::kParity),
      fault(Fault::kVersions), fault(Fault::kLeak), fault(Fault::kStuck), fault(Fault::kMaps),
      fault(Fault::kJobs), fault(Fault::kRefused), fault(Fault::kUndecided), t.beyond_promise);
  return text;
}

}  // namespace elastripe::sim
