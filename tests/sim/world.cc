#include "tests/sim/world.h"

#include "proxy/base/check.h"
#include "tests/sim/verdict.h"

using namespace elastripe::decider;

namespace elastripe::sim {

using std::chrono::seconds;

namespace {

// A decider that waits before its first map is helped by the operator: who is dead is declared so,
// and what survivors of more than m deaths can not vouch for is given up.
void settle_doubt(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  SimProxy* proxy = cluster.decider();
  if (proxy == nullptr) return;
  const ClusterStatus status = proxy->decider()->status();
  if (status.state != "waiting" || status.partitions > 0) return;
  for (const NodeStatus& node : status.nodes) {
    if (!cluster.node_is_up(node.info.id)) (void)proxy->decider()->declare_dead(node.info.name);
  }
  if (promise.is_broken() && status.can_accept_loss) {
    run.trace.add("-- the operator accepts what a takeover can not vouch for");
    promise.note_silent_given_up();
    proxy->do_task(decider::AcceptLoss{}, [](const auto&) {});
  }
}

}  // namespace

RunResult World::run() {
  auto& [run, cluster, promise, clients, faults, audit] = parts_;
  const Scenario& scenario = run.scenario;
  form();
  for (int round = 1; run.goes_on() && round <= scenario.faults.rounds; ++round) {
    if (round > 1) faults.begin_round();
    ++run.totals.rounds;
    work();
    if (run.goes_on()) heal();
    if (run.goes_on()) audit.read_everything("after healing");
    if (run.goes_on() && scenario.expect.repaired) wait_for_repair(parts_);
    if (run.goes_on() && scenario.workload.jobs > 0) operator_.check();
    if (run.goes_on() && scenario.faults.settings_changes > 0) cluster.settings().check();
  }
  if (run.goes_on() && scenario.faults.upgrades) finish_upgrade(parts_);
  if (run.goes_on() && scenario.faults.burials > 0) take_over(parts_);
  if (run.goes_on() && scenario.expect.declared_dead) declare_dead(parts_);
  if (run.goes_on() && scenario.expect.write_on) write_on(parts_);
  if (run.goes_on() && scenario.expect.accept_loss) accept_loss(parts_);
  if (run.goes_on() && scenario.workload.transitions > 0) transition_everything(parts_);
  if (run.goes_on() && scenario.expect.fill_nodes) fill_nodes(parts_);
  if (run.goes_on() && scenario.expect.check_leaks) audit.wait_for_reclaim();
  if (run.goes_on() && scenario.expect.check_leaks) audit.check_memory();
  if (run.goes_on() && (!scenario.expect.beyond_promise || cluster.has_accepted_loss())) {
    kill_to_the_limit(parts_);
    if (run.goes_on()) audit.read_everything("after the loss of m nodes");
  }
  shut_down();
  check_histories(run, clients, promise);
  judge_.tell();
  return {run.fault, run.what, run.totals, clients.history(), run.trace.take()};
}

void World::form() {
  auto& [run, cluster, promise, clients, faults, audit] = parts_;
  if (run.scenario.faults.upgrades) {
    // What repair asks for, and maybe what changes of the members do.
    cluster.install_build(node::CapabilitySet(run.random.chance(0.5) ? 1 : 3));
  }
  cluster.start();
  if (!run.scenario.cluster.followers) cluster.install_build(node::own_capabilities());
  if (!come_to_rest(parts_, "no cluster is formed")) return;
  while (static_cast<int>(cluster.proxies().size()) < run.scenario.cluster.proxies) {
    faults.set_clock_wrong(*cluster.add_proxy());
  }
  cluster.install_build(node::own_capabilities());
  run.calm = true;
  run.until(seconds(2), [&] { return cluster.is_settled(); });
  run.calm = false;
  cluster.keep_deciding();
}

void World::watch_network() {
  Parts& parts = parts_;
  parts.cluster.network().watch_commits(
      [&parts](int proxy, node::NodeId head, uint32_t epoch, const node::Record* record) {
        parts.cluster.note_epoch(epoch);
        if (record != nullptr) parts.audit.note_committed(*record);
        parts.faults.after_commit(proxy, head);
      });
  parts.cluster.network().watch_appends(
      [&parts](int proxy, node::NodeId tail) { parts.faults.after_append(proxy, tail); });
  parts.cluster.network().watch_installs([&parts](node::NodeId, const node::ClusterMap& map) {
    parts.promise.note_installed(map);
    parts.cluster.note_installed(map.epoch.number);
  });
  parts.cluster.network().watch_staging([&parts](int proxy) { parts.faults.after_staging(proxy); });
  parts.clients.watch_answers([&parts](const Operation& op) { parts.faults.after_answer(op); });
}

void World::work() {
  auto& [run, cluster, promise, clients, faults, audit] = parts_;
  faults.plan();
  if (run.totals.rounds == 1) watch_network();
  clients.start(run.scenario.workload.operations);
  operator_.start();
  const auto are_done = [&] { return clients.are_done() && operator_.is_done(); };
  run.until_promptly(run.scenario.faults.until, are_done);
  // Some schedules heal while clients are still at work, others when all are done.
  if (run.random.chance(0.5)) run.until_promptly(kHealLimit, are_done);
}

void World::heal() {
  auto& [run, cluster, promise, clients, faults, audit] = parts_;
  faults.end();
  if (!finish_clients(parts_)) return;
  const auto is_settled = [&] {
    settle_doubt(parts_);
    return cluster.is_settled();
  };
  if (!run.until(kHealLimit, is_settled)) blame_unrest(parts_, "the cluster does not heal");
  // What was written to LOST partitions is synced last, and nobody tells when.
  if (run.scenario.expect.accept_loss) run.let_pass(seconds(2));
}

void World::shut_down() {
  auto& [run, cluster, promise, clients, faults, audit] = parts_;
  for (size_t id = 0; id < cluster.nodes(); ++id) {
    if (!cluster.node(id).is_harmed()) continue;
    run.violation(Fault::kTorn, fmt::format("the stray at node {} has another map or records", id));
  }
  run.trace.add("-- shut down");
  cluster.stop();
  run.clock.cancel();
  clients.give_up_all();
  for (auto& proxy : cluster.proxies()) {
    CHECK(proxy->is_quiet(), "a flow does not end when its proxy dies");
  }
  CHECK(run.flows.live() == 0, "a client's operation does not end when its proxy dies");
  run.totals.events = run.events.events_run();
  run.totals.schedules = 1;
}

}  // namespace elastripe::sim
