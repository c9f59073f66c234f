#include "tests/sim/phases.h"

#include <algorithm>
#include <optional>

#include "proxy/ops/jobs/reclaim.h"

using namespace elastripe::jobs;

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// All is well: reclaim has so long for what was abandoned or superseded, beside their graces.
constexpr Duration kReclaimTime = seconds(3);

}  // namespace

bool come_to_rest(Parts& parts, const char* otherwise) {
  const auto is_settled = [&] { return parts.cluster.is_settled(); };
  if (parts.run.until(kHealLimit, is_settled)) return true;
  blame_unrest(parts, otherwise);
  return false;
}

void blame_unrest(Parts& parts, const char* what) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  SimProxy* proxy = cluster.decider();
  const bool lost = proxy != nullptr && proxy->decider()->status().partitions_lost > 0;
  if (promise.explains_unrest(lost)) {
    // Not a violation, but counted: timeouts and crashes together were more than m.
    run.over = true;
    run.what = fmt::format("{}: {}; failed: {}", what, cluster.why_unsettled(), promise.describe());
    run.trace.add("-- given up: {}", run.what);
    ++run.totals.beyond_promise;
    return;
  }
  run.violation(lost ? Fault::kLost : Fault::kStuck,
                fmt::format("{}: {}", what, cluster.why_unsettled()));
}

bool finish_clients(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  if (run.until_promptly(kHealLimit, [&] { return clients.are_done(); })) return true;
  run.violation(Fault::kStuck, "a client's operation does not end");
  return false;
}

void take_over(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- another decider takes over");
  if (cluster.decider() != nullptr) cluster.kill_proxy(*cluster.decider());
  cluster.start_new_decider();
  if (!come_to_rest(parts, "nobody takes the cluster over")) return;
  audit.read_everything("after a takeover");
}

namespace {

bool declare(SimProxy& decider, node::NodeId id) {
  const std::string name = decider.decider()->status().nodes[id].info.name;
  return decider.decider()->declare_dead(name).has_value();
}

void vanish_and_declare(Parts& parts, node::NodeId id) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  promise.forget_failures();
  promise.note_failure(id);
  cluster.node(id).kill(/*silent=*/true);
  const auto is_declared = [&] {
    SimProxy* proxy = cluster.decider();
    return proxy != nullptr && declare(*proxy, id);
  };
  const bool is_done = run.until(kHealLimit, is_declared) &&
                       run.until(kHealLimit, [&] { return cluster.is_settled_without(id); });
  if (!is_done) blame_unrest(parts, "the cluster does not get over what was declared dead");
}

}  // namespace

void declare_dead(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- machines vanish and are declared dead");
  std::vector<node::NodeId> dead;
  while (2 * dead.size() <= cluster.nodes() && run.goes_on()) {
    dead.push_back(static_cast<node::NodeId>(dead.size()));
    vanish_and_declare(parts, dead.back());
  }
  if (!run.goes_on()) return;
  if (cluster.decider() != nullptr) cluster.kill_proxy(*cluster.decider());
  // Some proxies begin, as nobody decides, and wait. One of them is told.
  std::set<node::NodeId> told;
  SimProxy* waits = nullptr;
  const bool is_told = run.until(kHealLimit, [&] {
    if (cluster.decider() != waits) told.clear();
    waits = cluster.decider();
    if (waits == nullptr) return false;
    for (const node::NodeId id : dead) {
      if (!told.contains(id) && declare(*waits, id)) told.insert(id);
    }
    return told.size() == dead.size();
  });
  if (!is_told) return blame_unrest(parts, "nobody is there to be told who is dead");
  if (!come_to_rest(parts, "the cluster does not get over the dead again")) return;
  audit.read_everything("after a takeover without the dead");
  for (const node::NodeId id : dead) cluster.node(id).start();
  come_to_rest(parts, "nodes that were declared dead do not come back");
}

namespace {

// The first key whose object lacks shards; nothing if none does.
std::optional<std::string> find_lacking_key(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  const auto lacks = [](const objects::SegmentHealth& segment) {
    return !segment.missing.empty() || !segment.unreachable.empty();
  };
  for (int key = 0; key < run.scenario.workload.keys; ++key) {
    const auto report = audit.inspect(key, *cluster.decider());
    if (!report || !report->is_live(run.clock.unix_ms())) continue;
    if (std::ranges::any_of(report->segments, lacks)) return clients.key_name(key);
  }
  return std::nullopt;
}

}  // namespace

void wait_for_repair(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- wait for repair");
  run.let_pass(faults.kill_repairers());
  if (!come_to_rest(parts, "the cluster does not get over the death of those that repair")) return;
  const auto is_repaired = [&] {
    SimProxy* proxy = cluster.decider();
    const node::MapPtr map = proxy == nullptr ? nullptr : proxy->map().current();
    return map != nullptr && proxy->repairer()->status().settled_in == map->epoch;
  };
  if (!run.until(3 * kHealLimit, is_repaired)) {
    SimProxy* proxy = cluster.decider();
    const std::string waits_for = proxy == nullptr ? "" : proxy->repairer()->status().waits_for;
    return run.violation(Fault::kStuck, fmt::format("repair does not end: {}; {}", waits_for,
                                                    cluster.why_unsettled()));
  }
  // A write that was left half-way may come to light only now, which is looked for seldom.
  auto lacking = find_lacking_key(parts);
  if (lacking) {
    run.let_pass(2 * jobs::Repairer::kLookAgainAfter);
    lacking = find_lacking_key(parts);
  }
  if (lacking) run.violation(Fault::kStuck, fmt::format("{} lacks shards after repair", *lacking));
  if (run.is_ok()) audit.read_everything("after repair");
}

void finish_upgrade(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- upgrade the rest");
  for (size_t id = 0; id < cluster.nodes() && run.goes_on(); ++id) {
    if (!cluster.node(id).is_outdated()) continue;
    promise.forget_failures();
    promise.note_failure(static_cast<node::NodeId>(id));
    ++run.totals.upgrades;
    cluster.node(id).kill(/*silent=*/false);
    run.let_pass(milliseconds(static_cast<int64_t>(run.random.below(1000))));
    cluster.node(id).start();
    if (!come_to_rest(parts, "the cluster does not heal after an upgrade")) return;
    wait_for_repair(parts);
  }
  for (size_t i = 0; i < cluster.proxies().size() && run.goes_on(); ++i) {
    SimProxy& proxy = *cluster.proxies()[i];
    if (proxy.is_alive() && proxy.build() != node::own_capabilities()) cluster.kill_proxy(proxy);
  }
  if (run.goes_on()) take_over(parts);
  if (!run.goes_on() || cluster.decider() == nullptr) return;
  // Once all proxies have told that they can.
  const auto used = [&] {
    return cluster.decider() == nullptr ? node::CapabilitySet()
                                        : cluster.decider()->decider()->status().capabilities;
  };
  const auto all = node::own_capabilities().without(node::peer_capabilities());
  if (run.until(kHealLimit, [&] { return used() == all; })) return;
  run.violation(Fault::kStuck,
                fmt::format("all are upgraded, and use no more than {}", node::to_string(used())));
}

void write_on(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- write on");
  const auto abandoned = kAbandonedAfter * run.scenario.cluster.upload_idle;
  const auto limit = abandoned + 2 * run.scenario.cluster.read_grace + kReclaimTime;
  clients.stop_at(run.events.now() + limit + seconds(1));
  clients.start(1'000'000);
  run.let_pass(limit + seconds(1));
  if (cluster.is_settled()) audit.find_old_orphans(limit);
  finish_clients(parts);
}

void kill_to_the_limit(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- kill as many nodes as the scheme survives");
  promise.forget_failures();
  std::vector<node::NodeId> dead;
  for (const node::NodeId id : promise.doomed()) {
    if (!cluster.node_is_up(id)) continue;
    if (!promise.is_tolerated(id) || !promise.can_spare(id, false)) continue;
    promise.note_failure(id);
    cluster.node(id).kill(false);
    dead.push_back(id);
  }
  // Half of the schedules read while the nodes are down, half after they are back, empty.
  const bool restart = run.random.chance(0.5);
  if (restart) {
    run.let_pass(milliseconds(static_cast<int64_t>(run.random.below(2000))));
    for (const node::NodeId id : dead) {
      if (!cluster.node(id).is_up()) cluster.node(id).start();
    }
    come_to_rest(parts, "the cluster does not heal");
  } else {
    run.let_pass(seconds(5));
  }
}

}  // namespace elastripe::sim
