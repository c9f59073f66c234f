#include "tests/sim/faults.h"

#include <algorithm>

#include "proxy/base/check.h"

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

void Faults::plan() {
  const auto plan = [this](int most, void (Faults::*fault)()) {
    const uint64_t count = random_.below(static_cast<uint64_t>(most) + 1);
    for (uint64_t i = 0; i < count; ++i) {
      run_.events.after(random_.between(Duration::zero(), plan_.until), [this, fault] {
        if (!run_.calm) (this->*fault)();
      });
    }
  };
  plan(plan_.node_kills, &Faults::kill_a_node);
  if (plan_.burials > 0) {
    run_.events.after(random_.between(Duration::zero(), seconds(1)), [this] { bury_one(); });
  }
  for (int i = 0; i < plan_.catastrophes; ++i) {
    run_.events.after(random_.between(plan_.until / 8, plan_.until), [this] {
      if (!run_.calm) kill_many();
    });
  }
  if (plan_.upgrades) plan_upgrade();
  plan(plan_.node_stalls, &Faults::stall_a_node);
  if (plan_.wrong_words > 0) plan(plan_.wrong_words, &Faults::declare_wrongly);
  plan(plan_.node_sticks, &Faults::stick_a_node);
  plan(plan_.bit_flips, &Faults::flip_a_bit);
  plan(plan_.clock_steps, &Faults::step_a_clock);
  plan(plan_.restarts, &Faults::restart_proxies);
  plan(plan_.member_changes, &Faults::change_a_member);
  if (plan_.settings_changes > 0) plan(plan_.settings_changes, &Faults::change_settings);
  if (plan_.etcd_outages > 0) plan(plan_.etcd_outages, &Faults::stop_etcd);
  if (plan_.etcd_cuts > 0) plan(plan_.etcd_cuts, &Faults::cut_etcd);
  if (plan_.etcd_partings > 0) plan(plan_.etcd_partings, &Faults::part_etcd);
  plan(plan_.link_cuts, &Faults::cut_a_link);
  if (plan_.partitions > 0) plan(plan_.partitions, &Faults::part_decider);
  plan(plan_.proxy_kills, &Faults::kill_a_proxy);
  plan(plan_.proxy_pauses, &Faults::pause_a_proxy);
}

void Faults::after_commit(int proxy, node::NodeId head) {
  if (run_.calm || (plan_.head_kills == 0 && plan_.committer_kills == 0)) return;
  if (random_.chance(plan_.head_kills)) {
    // The answer has left: it is in the network.
    run_.events.after(milliseconds(0), [this, head] {
      if (!run_.calm && cluster_.node(head).is_up() && may_doom(head)) {
        kill_node(cluster_.node(head));
      }
    });
  }
  if (random_.chance(plan_.committer_kills)) {
    run_.events.after(random_.between(Duration::zero(), run_.scenario.cluster.network.slow_max),
                      [this, proxy] {
                        SimProxy& victim = *cluster_.proxies()[static_cast<size_t>(proxy)];
                        if (!run_.calm && victim.is_alive()) cluster_.kill_proxy(victim);
                      });
  }
}

// Before or while the other copies get it.
void Faults::after_append(int proxy, node::NodeId tail) {
  if (run_.calm || plan_.appender_kills == 0) return;
  const Duration soon = random_.between(Duration::zero(), milliseconds(5));
  if (random_.chance(plan_.appender_kills)) {
    run_.events.after(soon, [this, tail] {
      if (!run_.calm && cluster_.node(tail).is_up() && may_doom(tail)) {
        kill_node(cluster_.node(tail));
      }
    });
  }
  if (random_.chance(plan_.appender_kills)) {
    run_.events.after(soon, [this, proxy] {
      SimProxy& victim = *cluster_.proxies()[static_cast<size_t>(proxy)];
      if (!run_.calm && victim.is_alive()) cluster_.kill_proxy(victim);
    });
  }
}

// What was answered is at all its places, at this very instant: one of them dies.
void Faults::after_answer(const Operation& op) {
  const node::MapPtr map = cluster_.newest_map();
  if (run_.calm || map == nullptr || !random_.chance(plan_.answer_kills)) return;
  std::vector<node::NodeId> victims = promise_.doomed();
  if (random_.chance(0.5)) {  // a home; else most hold a shard
    const auto& homes = map->partitions[map->partition_of(op.key)].homes;
    std::erase_if(victims,
                  [&](node::NodeId id) { return std::ranges::find(homes, id) == homes.end(); });
  }
  if (victims.empty()) return;
  SimNode& victim = cluster_.node(victims[random_.below(victims.size())]);
  if (victim.is_up()) kill_node(victim);
}

// One that may fail, and is among those that may die in this round, if need be in the place of
// another one.
bool Faults::may_doom(node::NodeId id) { return promise_.may_fail(id) && promise_.doom(id); }

void Faults::after_staging(int proxy) {
  if (plan_.stager_pauses == 0 || run_.calm) return;
  if (!random_.chance(plan_.stager_pauses)) return;
  pause_proxy(*cluster_.proxies()[static_cast<size_t>(proxy)]);
}

void Faults::kill_a_node() {
  SimNode& victim = cluster_.node(promise_.doomed()[random_.below(promise_.doomed().size())]);
  if (!victim.is_up()) return;
  const bool whole = plan_.domain_kills > 0 && random_.chance(plan_.domain_kills);
  if (whole && promise_.may_fail(victim.id()))
    run_.trace.add("{} dies", domain_of(run_.scenario, victim.id()));
  for (size_t id = 0; whole && id < cluster_.nodes(); ++id) {
    const bool is_near = domain_of(run_.scenario, id) == domain_of(run_.scenario, victim.id());
    if (is_near && id != victim.id() && cluster_.node(id).is_up()) kill_node(cluster_.node(id));
  }
  kill_node(victim);
}

// More than m of the doomed, in a moment.
void Faults::kill_many() {
  const size_t m = promise_.tolerated();
  CHECK(promise_.doomed().size() > m);
  const size_t count = m + 1 + random_.below(promise_.doomed().size() - m);
  const size_t first = random_.below(promise_.doomed().size());
  for (size_t i = 0; i < count; ++i) {
    const node::NodeId id = promise_.doomed()[(first + i) % promise_.doomed().size()];
    run_.events.after(random_.between(Duration::zero(), milliseconds(30)), [this, id] {
      if (!run_.calm && cluster_.node(id).is_up()) kill_node(cluster_.node(id));
    });
  }
}

void Faults::kill_node(SimNode& victim) {
  CHECK(promise_.is_doomed(victim.id()), "seed {}: node {} is to die, and not doomed", run_.seed,
        victim.id());
  if (!promise_.may_fail(victim.id()) || !promise_.can_spare(victim.id(), false)) return;
  promise_.note_failure(victim.id());
  victim.kill(random_.chance(plan_.silent_kills) && promise_.can_spare(victim.id(), true));
  // Back soon, before anybody has noticed, or after it has been excluded.
  Duration away = random_.chance(plan_.quick_restarts)
                      ? random_.between(milliseconds(1), milliseconds(60))
                      : random_.between(milliseconds(1), plan_.longest);
  if (const Duration every = plan_.restart_every; every > Duration::zero()) {
    away += every - (run_.events.now() + away).time_since_epoch() % every;
  }
  run_.events.after(away, [this, &victim] {
    if (victim.is_up()) return;
    victim.start();
    SimProxy* proxy = cluster_.decider();
    if (run_.calm || proxy == nullptr || !random_.chance(plan_.restart_cuts)) return;
    cut(*proxy, static_cast<node::NodeId>(random_.below(cluster_.nodes())), seconds(1));
  });
}

void Faults::change_a_member() { cluster_.change_a_member(random_); }

void Faults::change_settings() {
  SimProxy* decider = cluster_.decider();
  const bool is_contested = decider != nullptr && plan_.contested_settings > 0 &&
                            cluster_.has_long_leases() && random_.chance(plan_.contested_settings);
  if (!is_contested) {
    const bool is_parted =
        decider != nullptr && plan_.parted_settings > 0 && random_.chance(plan_.parted_settings);
    if (is_parted) part_decider();
    // Without letters, only who decides can do it.
    const bool may_ask_any = run_.scenario.cluster.followers && !is_parted;
    SimProxy* const asked =
        may_ask_any && random_.chance(0.5) ? cluster_.choose_proxy(random_) : decider;
    if (asked != nullptr) cluster_.change_settings(*asked);
    return;
  }
  constexpr int kSuccessors = 4;
  constexpr Duration kHowLong = seconds(6);
  const auto node = static_cast<node::NodeId>(random_.below(cluster_.nodes()));
  const auto proxies = static_cast<int>(cluster_.proxies().size());
  const auto witness = static_cast<int>(random_.below(cluster_.proxies().size()));
  for (int id = 0; id < proxies + kSuccessors; ++id) {
    if (id == witness && id != decider->id()) continue;
    ++run_.totals.link_cuts;
    cluster_.network().cut(id, node);
    run_.events.after(kHowLong, [this, id, node] { cluster_.network().mend(id, node); });
  }
  run_.trace.add("proxy {} alone sees node {}", witness, node);
  cluster_.change_settings(*decider);
  run_.events.after(random_.between(Duration::zero(), milliseconds(100)), [this, decider] {
    if (!run_.calm && decider->is_alive()) cluster_.kill_proxy(*decider);
  });
}

// It knows nothing of this cluster, and must get no part in it.
void Faults::put_stray(SimNode& at) {
  if (run_.calm || at.runs()) return;
  ++run_.totals.strays;
  at.start_stray();
}

// One more dies for good, if what the ones before it had is synced.
void Faults::bury_one() {
  if (run_.calm || buried_.size() >= static_cast<size_t>(plan_.burials)) return;
  std::vector<node::NodeId> candidates;
  for (const node::NodeId id : promise_.doomed()) {
    if (cluster_.node_is_up(id) && promise_.may_fail(id) && promise_.can_spare(id, false))
      candidates.push_back(id);
  }
  if (cluster_.decider() != nullptr && !candidates.empty()) {
    SimNode& victim = cluster_.node(candidates[random_.below(candidates.size())]);
    promise_.note_failure(victim.id());
    buried_.insert(victim.id());
    ++run_.totals.burials;
    const bool silent = random_.chance(plan_.silent_kills) && promise_.can_spare(victim.id(), true);
    victim.kill(silent);
    if (plan_.strays > 0 && random_.chance(plan_.strays)) {
      run_.events.after(random_.between(Duration::zero(), milliseconds(2000)),
                        [this, &victim] { put_stray(victim); });
    }
    if (random_.chance(plan_.successions)) {
      run_.events.after(random_.between(Duration::zero(), milliseconds(2000)), [this] {
        if (!run_.calm && cluster_.decider() != nullptr) cluster_.kill_proxy(*cluster_.decider());
      });
    }
  }
  run_.events.after(random_.between(milliseconds(50), milliseconds(900)), [this] { bury_one(); });
}

void Faults::plan_upgrade() {
  to_upgrade_.reset();
  for (size_t id = 0; id < cluster_.nodes() && !to_upgrade_; ++id) {
    if (cluster_.node(id).is_outdated()) to_upgrade_ = static_cast<node::NodeId>(id);
  }
  if (!to_upgrade_) return;
  CHECK(promise_.doom(*to_upgrade_));  // nobody has died in this round yet
  run_.events.after(random_.between(Duration::zero(), seconds(1)), [this] { upgrade_a_node(); });
}

// As soon as it may be down. If that is in a later round than it was planned for, the node is that
// one's: beside those that are doomed in a round no other may lose its memory.
void Faults::upgrade_a_node() {
  if (run_.calm || !to_upgrade_) return;
  SimNode& node = cluster_.node(*to_upgrade_);
  if (!node.is_outdated()) return;
  CHECK(promise_.is_doomed(node.id()), "seed {}: node {} is to be upgraded, and not doomed",
        run_.seed, node.id());
  if (promise_.may_fail(node.id())) {
    promise_.note_failure(node.id());
    ++run_.totals.upgrades;
    node.kill(/*silent=*/false);
    run_.events.after(random_.between(milliseconds(1), seconds(1)), [&node] {
      if (!node.runs()) node.start();
    });
    return;
  }
  run_.events.after(milliseconds(100), [this] { upgrade_a_node(); });
}

void Faults::stall_a_node() {
  SimNode& victim = cluster_.node(random_.below(cluster_.nodes()));
  if (!victim.is_up() || victim.is_stalled()) return;
  ++run_.totals.node_stalls;
  victim.stall();
  run_.events.after(random_.between(milliseconds(10), plan_.longest),
                    [&victim] { victim.resume(); });
}

// As many nodes as the scheme survives stall, and an operator takes them for dead. Soon another
// proxy is the only one that sees them, and one more node, but none of those that are left.
void Faults::declare_wrongly() {
  SimProxy* decider = cluster_.decider();
  const size_t count = promise_.tolerated();
  if (decider == nullptr || !cluster_.is_settled() || 2 * count >= cluster_.nodes()) return;
  std::vector<node::NodeId> stalled;
  const size_t first = random_.below(cluster_.nodes());
  for (size_t i = 0; i < count; ++i) {
    SimNode& node = cluster_.node((first + i) % cluster_.nodes());
    stalled.push_back(node.id());
    promise_.note_failure(node.id());
    node.stall();
  }
  run_.trace.add("nodes from {} on stall, {} of them, and are to be declared dead", first, count);
  declare(*decider, stalled, run_.events.now() + seconds(3));
  run_.events.after(random_.between(milliseconds(500), seconds(3)),
                    [this, decider, stalled] { divide(*decider, stalled); });
}

// As soon as they do not answer.
void Faults::declare(SimProxy& decider, std::vector<node::NodeId> stalled, TimePoint until) {
  if (run_.calm || !decider.is_alive() || decider.decider_has_ended()) return;
  std::erase_if(stalled, [&](node::NodeId id) {
    const std::string& name = cluster_.configuration().decider.nodes[id].name;
    const bool is_done = decider.decider()->declare_dead(name).has_value();
    run_.totals.wrong_words += is_done;
    if (is_done) run_.trace.add("node {} is declared dead", id);
    return is_done;
  });
  if (stalled.empty() || run_.events.now() > until) return;
  run_.events.after(random_.between(milliseconds(10), milliseconds(200)),
                    [this, &decider, stalled, until] { declare(decider, stalled, until); });
}

void Faults::divide(SimProxy& decider, const std::vector<node::NodeId>& stalled) {
  constexpr Duration kHowLong = seconds(8);
  SimProxy* const witness = cluster_.choose_proxy(random_);
  if (run_.calm || witness == nullptr || witness == &decider) return;
  std::set<node::NodeId> seen(stalled.begin(), stalled.end());
  seen.insert(static_cast<node::NodeId>((stalled.back() + 1u) % cluster_.nodes()));
  run_.trace.add("proxy {} alone sees the stalled nodes and the next one", witness->id());
  for (const auto& proxy : cluster_.proxies()) {
    for (size_t id = 0; id < cluster_.nodes(); ++id) {
      const auto node = static_cast<node::NodeId>(id);
      if (seen.contains(node) != (proxy.get() == witness)) cut(*proxy, node, kHowLong);
    }
  }
  for (const node::NodeId id : stalled) cluster_.node(id).resume();
}

// A node that answers no data frame is of no use, however well it answers heartbeats.
void Faults::stick_a_node() {
  SimNode& victim = cluster_.node(random_.below(cluster_.nodes()));
  if (!victim.is_up() || victim.is_stalled() || victim.is_stuck()) return;
  ++run_.totals.node_sticks;
  victim.stick();
  const uint64_t stick = victim.sticks();
  const bool is_long = random_.chance(0.5);
  const auto limit =
      milliseconds(SimNode::kStuckAfter_ms) + cluster_.configuration().decider.lease + seconds(1);
  run_.events.after(limit, [this, &victim, stick] {
    if (victim.sticks() != stick || !victim.is_stuck() || !victim.has_lease()) return;
    run_.violation(Fault::kStuck,
                   fmt::format("node {} keeps its lease and serves no data", victim.id()));
  });
  const Duration longest = is_long ? limit + seconds(2) : plan_.longest;
  run_.events.after(random_.between(is_long ? limit : milliseconds(10), longest), [&victim, stick] {
    if (victim.sticks() == stick) victim.resume();
  });
}

// One copy of a key at a time counts for at most one failure; it does so until the key is written
// again. A copy that is just being written is left alone.
void Faults::flip_a_bit() {
  SimNode& victim = cluster_.node(random_.below(cluster_.nodes()));
  if (!victim.is_up()) return;
  const uint64_t seed = random_.next();
  const std::string key = victim.store().corrupt(seed);
  if (key.empty()) return;
  if (clients_.is_being_written(key) || !promise_.note_damage(key)) {
    victim.store().corrupt(seed);  // and back
    return;
  }
  ++run_.totals.bit_flips;
  run_.trace.add("node {}: a bit of the record of {} flips", victim.id(), key);
}

SimProxy* Faults::victim_proxy() {
  if (random_.chance(plan_.at_decider)) return cluster_.decider();
  return cluster_.choose_proxy(random_);
}

void Faults::cut_a_link() {
  SimProxy* proxy = victim_proxy();
  if (proxy == nullptr) return;
  const auto id = static_cast<node::NodeId>(random_.below(cluster_.nodes()));
  cut(*proxy, id, random_.between(milliseconds(10), plan_.longest));
}

void Faults::cut(SimProxy& proxy, node::NodeId id, Duration how_long) {
  ++run_.totals.link_cuts;
  run_.trace.add("the link of proxy {} and node {} is cut", proxy.id(), id);
  cluster_.network().cut(proxy.id(), id);
  run_.events.after(how_long, [this, &proxy, id] {
    run_.trace.add("the link of proxy {} and node {} is mended", proxy.id(), id);
    cluster_.network().mend(proxy.id(), id);
  });
}

// As of a machine with a proxy and a node, or a rack with some: clients there find both, and nobody
// else does.
void Faults::part_decider() {
  SimProxy* const decider = cluster_.decider();
  if (decider == nullptr) return;
  const auto first = random_.below(cluster_.nodes());
  const int most = plan_.cut_off_nodes;
  const size_t count = most == 1 ? 1 : 1 + random_.below(static_cast<uint64_t>(most));
  const Duration how_long = random_.between(milliseconds(10), 2 * plan_.longest);
  for (const auto& proxy : cluster_.proxies()) {
    for (size_t id = 0; proxy->is_alive() && id < cluster_.nodes(); ++id) {
      const bool is_beside = (id + cluster_.nodes() - first) % cluster_.nodes() < count;
      if (is_beside == (proxy.get() == decider)) continue;
      cut(*proxy, static_cast<node::NodeId>(id), how_long);
    }
  }
}

void Faults::stop_etcd() {
  if (!cluster_.etcd()->is_up()) return;
  ++run_.totals.etcd_outages;
  cluster_.etcd()->stop();
  run_.events.after(random_.between(milliseconds(10), 2 * plan_.longest), [this] {
    if (!run_.calm) cluster_.etcd()->start();
  });
}

void Faults::cut_etcd() {
  SimProxy* proxy = victim_proxy();
  if (proxy == nullptr) return;
  run_.trace.add("proxy {} does not reach etcd", proxy->id());
  cluster_.etcd()->cut(proxy->id());
  run_.events.after(random_.between(milliseconds(10), 2 * plan_.longest),
                    [this, id = proxy->id()] { cluster_.etcd()->mend(id); });
}

void Faults::part_etcd() {
  SimProxy* proxy = victim_proxy();
  if (proxy == nullptr) return;
  ++run_.totals.etcd_partings;
  run_.trace.add("the member of etcd that proxy {} asks has no leader", proxy->id());
  cluster_.etcd()->part_member(proxy->id());
  run_.events.after(random_.between(milliseconds(10), 2 * plan_.longest), [this, id = proxy->id()] {
    run_.trace.add("the member of etcd that proxy {} asks has a leader", id);
    cluster_.etcd()->join_member(id);
  });
}

void Faults::kill_a_proxy() {
  SimProxy* proxy = victim_proxy();
  if (proxy != nullptr) cluster_.kill_proxy(*proxy);
}

void Faults::pause_a_proxy() {
  SimProxy* proxy = victim_proxy();
  if (proxy != nullptr) pause_proxy(*proxy);
}

void Faults::pause_proxy(SimProxy& paused) {
  SimProxy* const proxy = &paused;
  if (!proxy->is_alive() || proxy->clock().paused()) return;
  ++run_.totals.proxy_pauses;
  run_.trace.add("proxy {} is paused", proxy->id());
  proxy->pause();
  const Duration pause = random_.between(milliseconds(10), plan_.longest);
  // A paused decider may be taken for dead: it must then be harmless.
  if (proxy == cluster_.decider() && random_.chance(0.6)) {
    run_.events.after(random_.between(Duration::zero(), pause),
                      [this, proxy] { cluster_.replace_decider(*proxy); });
  }
  run_.events.after(pause, [this, proxy] {
    run_.trace.add("proxy {} goes on", proxy->id());
    proxy->resume();
  });
}

void Faults::step_a_clock() {
  SimProxy* proxy = victim_proxy();
  if (proxy != nullptr) clients_.step_clock(*proxy, plan_.choose_step(random_));
}

// As a time service does in the end, where one runs.
void Faults::set_clocks_right() {
  for (auto& proxy : cluster_.proxies()) {
    const auto ahead = milliseconds(proxy->clock().unix_ms() - run_.clock.unix_ms());
    const auto lead = std::chrono::duration_cast<milliseconds>(proxy->wall_lead());
    if (ahead != lead) clients_.step_clock(*proxy, lead - ahead);
  }
}

void Faults::end() {
  run_.trace.add("-- heal");
  run_.calm = true;
  cluster_.network().calm();
  cluster_.network().mend_all();
  for (size_t id = 0; id < cluster_.nodes(); ++id) {
    SimNode& node = cluster_.node(id);
    node.resume();
    const bool returns = !buried_.contains(node.id()) || random_.chance(plan_.returns);
    if (returns && node.is_stray()) node.kill(false);
    if (returns && !node.is_up()) node.start();
  }
  for (auto& proxy : cluster_.proxies()) proxy->resume();
  set_clocks_right();
  end_etcd();
}

// Who decides does so without it.
void Faults::end_etcd() {
  EtcdStore* const etcd = cluster_.etcd();
  if (etcd == nullptr) return;
  etcd->calm();
  for (const auto& proxy : cluster_.proxies()) {
    etcd->mend(proxy->id());
    etcd->join_member(proxy->id());
  }
  etcd->start();
  if (!cluster_.has_lasting_decider() || !random_.chance(plan_.etcd_ends)) return;
  ++run_.totals.etcd_ends;
  etcd->stop();
}

void Faults::begin_round() {
  run_.trace.add("-- the next round");
  run_.calm = false;
  cluster_.network().trouble();
  if (cluster_.etcd() != nullptr) cluster_.etcd()->trouble();
  buried_.clear();
  promise_.begin_round();
  for (size_t id = 0; id < cluster_.nodes(); ++id) {
    SimNode& node = cluster_.node(id);
    if (node.is_up()) continue;
    run_.events.after(random_.between(Duration::zero(), plan_.until / 2), [&node] {
      if (!node.runs()) node.start();
    });
  }
}

Duration Faults::kill_repairers() {
  constexpr Duration kFor = seconds(3);
  if (plan_.repairer_kills == 0) return Duration::zero();
  kill_a_repairer(plan_.repairer_kills, run_.events.now() + kFor);
  return kFor;
}

// A repair is soon done: it has to be looked for often.
void Faults::kill_a_repairer(int left, TimePoint until) {
  std::vector<SimProxy*> repairing;
  for (const auto& proxy : cluster_.proxies()) {
    if (!proxy->is_alive() || proxy->repairer() == nullptr) continue;
    if (proxy->repairer()->status().is_running) repairing.push_back(proxy.get());
  }
  if (!repairing.empty() && random_.chance(0.2)) {
    ++run_.totals.repairer_kills;
    cluster_.kill_proxy(*repairing[random_.below(repairing.size())]);
    --left;
  }
  const Duration pause = random_.between(Duration::zero(), milliseconds(10));
  if (left == 0 || run_.events.now() + pause >= until) return;
  run_.events.after(pause, [this, left, until] { kill_a_repairer(left, until); });
}

void Faults::set_clock_wrong(SimProxy& proxy) {
  if (plan_.wrong_clocks == 0 || !random_.chance(plan_.wrong_clocks)) return;
  clients_.step_clock(proxy, plan_.choose_step(random_));
}

}  // namespace elastripe::sim
