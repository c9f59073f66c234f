#include "tests/sim/cluster.h"

#include <algorithm>

using namespace elastripe::decider;

namespace elastripe::sim {

using std::chrono::milliseconds;

namespace {

constexpr Duration kFollowEvery = milliseconds(20);
constexpr Duration kTickEvery = milliseconds(100);

// What the decider knows of the nodes' rooms.
void share_rooms(const MapView& from, MapView& to) {
  to.expect_nodes(from.rooms()->size());
  for (size_t id = 0; id < from.rooms()->size(); ++id) {
    const auto node = static_cast<node::NodeId>(id);
    to.rooms()->note_free_bytes(node, from.rooms()->free_bytes(node));
  }
}

}  // namespace

Cluster::Cluster(Run& run)
    : run_(run),
      network_(run.events, run.trace, run.random.next(), run.scenario.cluster.network,
               run.scenario.cluster.nodes, run.scenario.cluster.node_memory),
      scheme_(run.scenario.cluster.scheme),
      settings_(run, [this] { return std::max(newest_installed_, newest_epoch()); }) {
  configurations_.push_back(std::make_unique<Configuration>(run.scenario, nodes(), scheme_));
  if (run.scenario.cluster.etcd_ttl > Duration::zero()) {
    etcd_ = std::make_unique<EtcdStore>(run.events, run.trace, run.random.next());
  }
  choose_wrong_machines();
}

void Cluster::choose_wrong_machines() {
  const auto count = static_cast<size_t>(run_.scenario.faults.wrong_machines);
  const auto machines = static_cast<uint64_t>(run_.scenario.cluster.proxies);
  while (wall_leads_.size() < count) {
    const int machine = static_cast<int>(run_.random.below(machines));
    if (wall_leads_.contains(machine)) continue;
    wall_leads_[machine] =
        duration_cast<std::chrono::seconds>(run_.scenario.faults.choose_step(run_.random));
  }
}

void Cluster::start() {
  for (size_t id = 0; id < nodes(); ++id) node(id).start();
  tick_nodes();
  follow_maps();
  start_new_decider();
}

void Cluster::keep_deciding() {
  decider_wanted_ = true;
  keep_a_decider();
}

void Cluster::stop() {
  decider_wanted_ = false;
  for (auto& proxy : proxies_) {
    add_counters(run_.totals.ops, proxy->counters());
    if (proxy->is_alive()) proxy->kill();
  }
  const Network::Counters& net = network_.counters();
  run_.totals.frames = net.frames;
  run_.totals.dropped = net.dropped;
  run_.totals.duplicated = net.duplicated;
  run_.totals.late = net.late;
  if (followed_ != nullptr) run_.totals.epochs = followed_->epoch.number;
}

void Cluster::look_at_maps() {
  for (const auto& watch : map_watches_) watch();
}

void Cluster::replace_decider(SimProxy& old) {
  if (decider_wanted_ && !run_.calm && decider() == &old) start_new_decider();
}

void Cluster::note_epoch(uint32_t number) { newest_epoch_ = std::max(newest_epoch_, number); }

std::optional<size_t> Cluster::nodes_up_in(uint64_t epoch) const {
  const auto found = up_in_epoch_.find(epoch);
  if (found == up_in_epoch_.end()) return std::nullopt;
  return found->second;
}

SimProxy* Cluster::add_proxy(const SimProxy* in_place_of) {
  const int id = static_cast<int>(proxies_.size());
  const Configuration& own = configuration();
  const auto own_lead = wall_leads_.find(id);
  const Duration wall_lead = in_place_of != nullptr          ? in_place_of->wall_lead()
                             : own_lead != wall_leads_.end() ? own_lead->second
                                                             : Duration::zero();
  proxies_.push_back(std::make_unique<SimProxy>(id, run_.events, network_, run_.random.next(),
                                                own.pools, own.ops,
                                                run_.scenario.cluster.proxy_memory, wall_lead));
  scheduled_epochs_.push_back(0);
  heard_epochs_.push_back(0);
  run_.trace.add("proxy {} starts", id);
  if (wall_lead != Duration::zero()) {
    run_.trace.add("its wall clock is ahead by {} s",
                   std::chrono::duration_cast<std::chrono::seconds>(wall_lead).count());
  }
  if (etcd_ != nullptr) {
    proxies_.back()->elect_by(*etcd_, run_.scenario.cluster.etcd_ttl);
  }
  constexpr Duration kFollowsWithin = milliseconds(300);
  if (run_.scenario.faults.settings_changes > 0) proxies_.back()->take_settings(kFollowsWithin);
  if (run_.scenario.cluster.followers) {
    DeciderSettings settings = own.decider;
    settings.capabilities = settings.capabilities.common_with(build_);
    SimProxy& proxy = *proxies_.back();
    proxy.watch_beginnings([this, &proxy] {
      if (etcd_ != nullptr) check_election(proxy);
      beginning_watch_(proxy);
    });
    proxy.follow_by(settings, run_.scenario.cluster.elections);
    if (run_.scenario.workload.jobs > 0) proxies_.back()->run_jobs();
    proxies_.back()->correspond(own.decider.heartbeat);
  }
  if (const Duration after = run_.scenario.cluster.repair_after; after > Duration::zero()) {
    proxies_.back()->start_repairer({.after = after});
  }
  if (const Duration after = run_.scenario.cluster.fold_after; after > Duration::zero()) {
    proxies_.back()->start_recycler({.fold_after = after});
  }
  return proxies_.back().get();
}

// It may have been stopped between seeing that it was elected, and beginning.
void Cluster::check_election(SimProxy& proxy) {
  const Duration ago = run_.scenario.cluster.etcd_ttl + 2 * run_.scenario.faults.longest;
  ++run_.totals.elected;
  if (etcd_->last_had("/decider", proxy.etcd_name()) >= run_.events.now() - ago) return;
  run_.violation(Fault::kStuck,
                 fmt::format("proxy {} begins to decide, and was not elected", proxy.id()));
}

bool Cluster::has_lasting_decider() {
  const auto deciding = std::ranges::count_if(
      proxies_, [](const auto& proxy) { return proxy->is_alive() && is_deciding(*proxy); });
  SimProxy* proxy = decider();
  if (deciding != 1 || proxy == nullptr || proxy->clock().paused()) return false;
  const ClusterStatus status = proxy->decider()->status();
  return status.state == "serving" && status.epoch.number >= newest_installed_;
}

bool Cluster::is_deciding(SimProxy& proxy) {
  return proxy.decider() != nullptr && !proxy.decider_has_ended();
}

SimProxy* Cluster::decider() {
  if (decider_ < 0) return nullptr;
  SimProxy* proxy = proxies_[static_cast<size_t>(decider_)].get();
  return proxy->is_alive() && !proxy->decider_has_ended() ? proxy : nullptr;
}

void Cluster::follow_maps() {
  SimProxy* source = decider();
  const node::MapPtr served = source == nullptr ? nullptr : source->map().current();
  if (served != nullptr &&
      (followed_ == nullptr || served->epoch.number > followed_->epoch.number)) {
    followed_ = served;
    run_.trace.add("epoch {} is served", served->epoch.number);
    stop_removed(*served);
  }
  if (served != nullptr) note_wrong_decider(*source);
  for (size_t i = 0; followed_ != nullptr && i < proxies_.size(); ++i) {
    SimProxy& proxy = *proxies_[i];
    if (const auto held = proxy.map().current()) {
      up_in_epoch_[held->epoch.number] = static_cast<size_t>(
          std::ranges::count(held->nodes, node::NodeState::kUp, &node::NodeInfo::state));
      note_epoch(held->epoch.number);
      settings_.look(*held);
    }
    if (&proxy == source || run_.scenario.cluster.followers) continue;
    if (source != nullptr) share_rooms(source->map(), proxy.map());
    if (proxy.is_alive()) tell(i);
  }
  look_at_maps();
  if (!run_.calm || !is_settled()) {
    at_rest_since_ = TimePoint::max();
  } else {
    at_rest_since_ = std::min(at_rest_since_, run_.events.now());
  }
  run_.events.after(kFollowEvery, [this] { follow_maps(); });
}

// Others have told it by then what their clocks show, and it collects what has expired.
void Cluster::note_wrong_decider(const SimProxy& decider) {
  constexpr Duration kLong = std::chrono::seconds(8);
  if (decider.wall_lead() <= Duration::zero()) return;
  if (++looks_at_wrong_ > kLong / kFollowEvery) run_.totals.wrong_deciders = 1;
}

// The stand-in for a watch on the published maps: each proxy hears of them late, in its own time.
void Cluster::tell(size_t i) {
  SimProxy* proxy = proxies_[i].get();
  const uint32_t number = followed_->epoch.number;
  const auto own = proxy->map().current();
  if (own != nullptr && (own->epoch.number >= number || scheduled_epochs_[i] == number)) return;
  scheduled_epochs_[i] = number;
  const Duration delay =
      run_.calm ? Duration::zero()
                : run_.random.between(Duration::zero(), run_.scenario.cluster.map_delay_max);
  proxy->clock().post(run_.events.now() + delay, [this, proxy, i, map = followed_] {
    // One that was deposed since has no map, yet knows better than an old one.
    if (map->epoch.number < heard_epochs_[i]) return;
    heard_epochs_[i] = map->epoch.number;
    const auto held = proxy->map().current();
    if (held != nullptr && held->epoch.number >= map->epoch.number) return;
    run_.trace.add("proxy {} hears of epoch {}", proxy->id(), map->epoch.number);
    proxy->map().serve(map);
  });
}

void Cluster::check_builds() {
  for (const auto& proxy : proxies_) {
    const node::MapPtr map = proxy->is_alive() ? proxy->map().current() : nullptr;
    if (map == nullptr || proxy->build().has_all(map->capabilities)) continue;
    run_.violation(Fault::kStuck, fmt::format("proxy {} serves a map that uses {}, and can only {}",
                                              proxy->id(), node::to_string(map->capabilities),
                                              node::to_string(proxy->build())));
  }
}

void Cluster::tick_nodes() {
  if (run_.scenario.faults.upgrades && run_.scenario.cluster.followers) check_builds();
  for (size_t id = 0; id < nodes(); ++id) node(id).tick();
  run_.events.after(kTickEvery, [this] { tick_nodes(); });
}

void Cluster::start_new_decider() {
  if (decider_wanted_) change_configuration();
  SimProxy* proxy = add_proxy();
  decider_ = static_cast<int>(proxies_.size()) - 1;
  DeciderSettings settings = configuration().decider;
  settings.capabilities = settings.capabilities.common_with(build_);
  std::set<node::NodeId>& vouched_dead = vouched_dead_[decider_];
  if (run_.scenario.faults.forced > 0 &&
      (!has_majority({}) || run_.random.chance(run_.scenario.faults.forced))) {
    vouched_dead = silent_nodes();
    settings.force_epoch = !vouched_dead.empty();
  }
  if (settings.force_epoch) {
    ++run_.totals.forced;
    run_.trace.add("decider {} is told that whoever is silent is dead", proxy->id());
  }
  proxy->start_decider(settings);
}

// Before a decider starts: its operator has added a node, and has ended whoever decides by the list
// without it. Should all nodes of that have started again, such a one could not know better than to
// make a cluster of them.
void Cluster::change_configuration() {
  const auto most = static_cast<size_t>(run_.scenario.cluster.nodes + run_.scenario.faults.joiners);
  if (nodes() >= most || !run_.random.chance(0.6)) return;
  run_.trace.add("a node is added to the configuration");
  ++run_.totals.joiners;
  network_.add_node().install_build(build_);
  node(nodes() - 1).start();
  for (auto& proxy : proxies_) {
    if (proxy->is_alive() && is_deciding(*proxy)) kill_proxy(*proxy);
  }
  configurations_.push_back(std::make_unique<Configuration>(run_.scenario, nodes(), scheme_));
}

void Cluster::ask_member(MemberChange::Kind kind, node::NodeId id, std::function<void(bool)> then) {
  const ConfiguredNode named = node_of_member(run_.scenario, id);
  MemberChange change{.kind = kind, .node = {}};
  change.node.name = named.name;
  change.node.host = named.host;
  change.node.port = named.port;
  change.node.domain = named.domain;
  decider()->do_task(std::move(change), [then = std::move(then)](const DeciderAnswer& answer) {
    then(answer.has_value());
  });
}

bool Cluster::has_long_leases() {
  const node::MapPtr map = decider() == nullptr ? nullptr : decider()->map().current();
  return map != nullptr && map->settings.lease_ms * milliseconds(1) > configuration().decider.lease;
}

// Leases get four times as long as they are configured, or as long as that.
void Cluster::change_settings(SimProxy& at) {
  const node::MapPtr map = at.map().current();
  if (map == nullptr || map->settings.version == 0) return;
  const auto configured = static_cast<uint32_t>(configuration().decider.lease / milliseconds(1));
  settings_.ask(at, *map, map->settings.lease_ms > configured ? configured : 4 * configured);
}

// It drains a few at a time, and stops the process of a node that is removed, which is empty then.
void Cluster::change_a_member(SimRandom& random) {
  using Kind = MemberChange::Kind;
  if (decider() == nullptr) return;
  const ClusterStatus status = decider()->decider()->status();
  const node::MapPtr map = decider()->map().current();
  if (status.state != "serving" || map == nullptr) return;
  const auto seeds = static_cast<size_t>(run_.scenario.cluster.nodes);
  const auto plain =
      static_cast<size_t>(std::ranges::count_if(status.nodes, [](const NodeStatus& node) {
        return node.info.role == node::NodeRole::kMember;
      }));
  const FaultPlan& plan = run_.scenario.faults;
  if (plan.changes_of_mind > 0 && random.chance(plan.changes_of_mind)) {
    const auto draining = std::ranges::find_if(status.nodes, [](const NodeStatus& node) {
      return node.info.role == node::NodeRole::kDraining;
    });
    if (draining != status.nodes.end()) return refill_a_member(draining->info.id);
  }
  if (plain <= seeds || (plain < 2 * seeds && random.chance(plan.growth))) {
    const auto removed = std::ranges::find_if(map->nodes, &node::NodeInfo::is_removed);
    const bool comes_back = removed != map->nodes.end() && random.chance(0.5);
    const auto id = static_cast<node::NodeId>(comes_back ? removed->id : map->nodes.size());
    stop_removed(*map);
    leaving_.erase(id);
    if (id == nodes()) network_.add_node().install_build(build_);
    if (!node(id).is_up()) node(id).start();
    return ask_member(Kind::kAdd, id, [this, id](bool is_done) {
      if (!is_done) return;
      run_.trace.add("node {} is added", id);
      ++run_.totals.members_added;
    });
  }
  const node::NodeInfo& info = status.nodes[random.below(status.nodes.size())].info;
  const node::NodeId chosen = info.id;
  if (info.role == node::NodeRole::kMember) {
    if (plain <= seeds) return;
    return ask_member(Kind::kDrain, chosen, [this, chosen](bool is_done) {
      if (!is_done) return;
      run_.trace.add("node {} is drained", chosen);
      ++run_.totals.members_drained;
    });
  }
  const bool refills = random.chance(plan.refills);
  leaving_.insert(chosen);
  ask_member(Kind::kRemove, chosen, [this, chosen, refills](bool is_done) {
    if (!is_done && refills) refill_a_member(chosen);
  });
}

// Whatever he was told: a map that is served says so.
void Cluster::stop_removed(const node::ClusterMap& served) {
  std::erase_if(leaving_, [&](node::NodeId id) {
    if (id >= served.nodes.size() || !served.nodes[id].is_removed()) return false;
    run_.trace.add("node {} is removed", id);
    ++run_.totals.members_removed;
    if (node(id).is_up()) node(id).kill(/*silent=*/false);
    return true;
  });
}

void Cluster::refill_a_member(node::NodeId id) {
  if (decider() == nullptr) return;
  ask_member(MemberChange::Kind::kRefill, id, [this, id](bool is_done) {
    if (!is_done) return;
    run_.trace.add("node {} is no longer drained", id);
    ++run_.totals.members_refilled;
  });
}

void Cluster::install_build(node::CapabilitySet capabilities) {
  build_ = capabilities;
  for (size_t id = 0; id < nodes(); ++id) node(id).install_build(capabilities);
}

// With other pools: that needs all of them to start again.
void Cluster::restart_proxies() {
  scheme_ = scheme_ == run_.scenario.cluster.scheme ? run_.scenario.faults.other_scheme
                                                    : run_.scenario.cluster.scheme;
  run_.trace.add("all proxies start again, with {}", scheme_);
  ++run_.totals.restarts;
  for (auto& proxy : proxies_) {
    if (proxy->is_alive()) kill_proxy(*proxy);
  }
  configurations_.push_back(std::make_unique<Configuration>(run_.scenario, nodes(), scheme_));
  start_new_decider();
}

void Cluster::keep_a_decider() {
  if (!decider_wanted_) return;
  // The operator can tell the dead from the silent.
  const bool is_stuck = run_.scenario.faults.forced > 0 && !has_majority(vouched_dead_[decider_]);
  if (is_stuck && decider() != nullptr) kill_proxy(*decider());
  // Enough of races once all is calm.
  const bool elects = run_.scenario.cluster.elections;
  for (size_t i = 0; (elects || run_.calm) && decider() == nullptr && i < proxies_.size(); ++i) {
    SimProxy& other = *proxies_[i];
    if (other.is_alive() && is_deciding(other)) decider_ = static_cast<int>(i);
  }
  if (decider() == nullptr && !elects) start_new_decider();
  run_.events.after(run_.random.between(milliseconds(20), milliseconds(1000)),
                    [this] { keep_a_decider(); });
}

SimProxy* Cluster::choose_proxy(SimRandom& random) {
  std::vector<SimProxy*> alive;
  for (auto& proxy : proxies_) {
    if (proxy->is_alive()) alive.push_back(proxy.get());
  }
  return alive.empty() ? nullptr : alive[random.below(alive.size())];
}

void Cluster::kill_proxy(SimProxy& proxy) {
  ++run_.totals.proxy_kills;
  run_.trace.add("proxy {} is killed", proxy.id());
  look_at_maps();  // a map that it has just made may exclude a node
  proxy.kill();
  const bool was_decider = proxy.decider() != nullptr;
  // keep_a_decider() starts the next one
  if (was_decider && !run_.scenario.cluster.elections) return;
  run_.events.after(run_.random.between(milliseconds(10), milliseconds(1000)), [this, &proxy] {
    if (decider_wanted_) add_proxy(&proxy);
  });
}

bool Cluster::has_majority(const std::set<node::NodeId>& known_dead) {
  size_t silent = 0, answering = 0;
  for (size_t id = 0; id < nodes(); ++id) {
    const bool is_known = known_dead.contains(static_cast<node::NodeId>(id));
    answering += node(id).is_up();
    silent += !node(id).runs() && node(id).is_silent() && !is_known;
  }
  return answering > silent;
}

std::set<node::NodeId> Cluster::silent_nodes() {
  std::set<node::NodeId> silent;
  for (size_t id = 0; id < nodes(); ++id) {
    if (!node(id).runs() && node(id).is_silent()) silent.insert(node(id).id());
  }
  return silent;
}

// A decider that has been deposed has no map any more, and whoever
// follows it may serve none yet; but what was committed under its last one is as whole as ever, and
// a node that dies in between takes shards of that epoch along.
uint32_t Cluster::newest_epoch() {
  for (const auto& proxy : proxies_) {
    const node::MapPtr map = proxy->map().current();
    if (map != nullptr) newest_epoch_ = std::max(newest_epoch_, map->epoch.number);
  }
  return newest_epoch_;
}

bool Cluster::is_settled() {
  SimProxy* proxy = decider();
  if (proxy == nullptr) return false;
  const node::MapPtr map = proxy->map().current();
  if (map == nullptr) return false;
  const bool may_have_spares = run_.scenario.faults.member_changes > 0;
  if (map->nodes.size() < nodes() && !may_have_spares) return false;
  for (const node::NodeInfo& node : map->nodes) {
    if (node.is_removed()) continue;
    const bool is_up = node.state == node::NodeState::kUp;
    if (is_up != node_is_up(node.id)) return false;
    // Nobody may have noticed yet that it has started again.
    if (is_up && !this->node(node.id).is_incarnation(node.incarnation)) return false;
  }
  const ClusterStatus status = proxy->decider()->status();
  if (status.state != "serving" || status.partitions == 0) return false;
  const uint32_t lost =
      run_.scenario.expect.beyond_promise && !accepted_loss_ ? status.partitions_lost : 0;
  if (status.partitions_synced + lost < status.partitions) return false;
  if (run_.scenario.faults.member_changes > 0 && status.partitions_to_move > 0) return false;
  for (const NodeStatus& node : status.nodes) {
    if (!node.has_lease && node_is_up(node.info.id)) return false;
  }
  return std::ranges::all_of(proxies_, [&](const auto& other) {
    if (!other->is_alive()) return true;
    // One that is still starting will take over, if the nodes that it waits for tell.
    const bool is_starting = other.get() != proxy && is_deciding(*other);
    if (is_starting && (other->is_forced() || has_majority({}))) return false;
    const node::MapPtr own = other->map().current();
    return own != nullptr && own->epoch == map->epoch;
  });
}

bool Cluster::is_settled_without(node::NodeId id) {
  SimProxy* proxy = decider();
  if (proxy == nullptr || proxy->map().current() == nullptr) return false;
  const ClusterStatus status = proxy->decider()->status();
  return status.state == "serving" && status.nodes[id].info.state == node::NodeState::kLost &&
         status.partitions_synced == status.partitions;
}

std::string Cluster::why_unsettled() {
  SimProxy* proxy = decider();
  if (proxy == nullptr) return "there is no decider";
  const ClusterStatus status = proxy->decider()->status();
  std::string text = fmt::format("{} {} epoch {} synced {}/{} lost {}:", status.state,
                                 status.reason, status.epoch.number, status.partitions_synced,
                                 status.partitions, status.partitions_lost);
  for (const NodeStatus& node : status.nodes) text += fmt::format(" {}", name(node.info.state));
  return text;
}

}  // namespace elastripe::sim
