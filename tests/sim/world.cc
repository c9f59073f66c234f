#include "tests/sim/world.h"

#include <algorithm>

#include "proxy/base/check.h"
#include "tests/sim/linearizability.h"
#include "tests/sim/world_internal.h"

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

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

const char* name(Fault fault) {
  static constexpr const char* kNames[] = {"none",     "stale", "lost",  "torn",    "parity",
                                           "versions", "leak",  "stuck", "refused", "undecided"};
  return kNames[static_cast<size_t>(fault)];
}

void Totals::add(const Totals& o) {
  schedules += o.schedules;
  histories += o.histories;
  operations += o.operations;
  unknowns += o.unknowns;
  acknowledged_writes += o.acknowledged_writes;
  errors += o.errors;
  refused_for_memory += o.refused_for_memory;
  transitions += o.transitions;
  refused_transitions += o.refused_transitions;
  streams += o.streams;
  cut_uploads += o.cut_uploads;
  cut_reads += o.cut_reads;
  lost_keys += o.lost_keys;
  short_of_room += o.short_of_room;
  node_kills += o.node_kills;
  node_stalls += o.node_stalls;
  node_sticks += o.node_sticks;
  bit_flips += o.bit_flips;
  burials += o.burials;
  joiners += o.joiners;
  strays += o.strays;
  clock_steps += o.clock_steps;
  forced += o.forced;
  restarts += o.restarts;
  link_cuts += o.link_cuts;
  proxy_kills += o.proxy_kills;
  proxy_pauses += o.proxy_pauses;
  epochs += o.epochs;
  beyond_promise += o.beyond_promise;
  frames += o.frames;
  dropped += o.dropped;
  duplicated += o.duplicated;
  late += o.late;
  events += o.events;
  add_counters(ops, o.ops);
}

World::World(const Scenario& scenario, uint64_t seed, bool traced)
    : scenario_(scenario),
      events_(seed * 0x9e3779b97f4a7c15 + 1),
      trace_(events_, traced),
      random_(seed * 0xd1342543de82ef95 + 2),
      clock_(events_),
      network_(events_, trace_, random_.next(), scenario.network, scenario.nodes,
               scenario.node_memory) {
  const auto nodes = static_cast<size_t>(scenario.nodes);
  scheme_ = scenario.scheme;
  configurations_.push_back(std::make_unique<Configuration>(scenario, nodes, scenario.scheme));
  doomed_ = choose_doomed();
}

// Nodes of as many domains as may lose their memory.
std::vector<node::NodeId> World::choose_doomed() {
  std::set<std::string> domains;
  for (size_t id = 0; id < network_.nodes(); ++id) domains.insert(domain_of(scenario_, id));
  // Were all nodes empty at once, a new and empty cluster would be formed.
  size_t most = scenario_.beyond_promise ? domains.size() - 1 : configurations_.back()->parities();
  if (!scenario_.more_pools.empty()) {
    // What each pool survives, in turn.
    const auto& all = pools().pools();
    most = static_cast<size_t>(all[random_.below(all.size())].scheme.m);
  }
  if (scenario_.records_only) most = domains.size();
  if (!scenario_.other_scheme.empty()) {
    const Configuration other(scenario_, network_.nodes(), scenario_.other_scheme);
    most = std::min(most, other.parities());
  }
  std::vector<std::string> left(domains.begin(), domains.end());
  std::vector<node::NodeId> doomed;
  for (; most > 0; --most) {
    const size_t pick = random_.below(left.size());
    for (size_t id = 0; id < network_.nodes(); ++id) {
      if (domain_of(scenario_, id) == left[pick]) doomed.push_back(static_cast<node::NodeId>(id));
    }
    left.erase(left.begin() + static_cast<ptrdiff_t>(pick));
  }
  return doomed;
}

World::~World() = default;

RunResult World::run() {
  form();
  const auto goes_on = [this] { return result_.ok() && !over_; };
  if (goes_on()) work();
  if (goes_on()) heal();
  if (goes_on()) audit("after healing");
  if (goes_on() && scenario_.burials > 0) take_over();
  if (goes_on() && scenario_.write_on) write_on();
  if (goes_on() && scenario_.accept_loss) accept_loss();
  if (goes_on() && has_transitions(scenario_)) transition_everything();
  if (goes_on() && scenario_.fill_nodes) fill_nodes();
  if (goes_on() && scenario_.check_leaks) reclaim();
  if (goes_on() && scenario_.check_leaks) check_memory();
  if (goes_on() && (!scenario_.beyond_promise || accepted_loss_)) {
    kill_to_the_limit();
    if (goes_on()) audit("after the loss of m nodes");
  }
  shut_down();
  check_histories();
  result_.trace = trace_.take();
  return std::move(result_);
}

void World::violation(Fault fault, std::string what) {
  if (!result_.ok()) return;
  trace_.add("VIOLATION {}: {}", name(fault), what);
  result_.fault = fault;
  result_.what = std::move(what);
}

// Phases.

void World::form() {
  for (size_t id = 0; id < network_.nodes(); ++id) network_.node(id).start();
  tick_nodes();
  follow_maps();
  start_new_decider();
  if (!run_until(kHealLimit, [this] { return is_settled(); })) {
    return unsettled("no cluster is formed");
  }
  while (static_cast<int>(proxies_.size()) < scenario_.proxies) {
    SimProxy* proxy = add_proxy();
    if (scenario_.wrong_clocks > 0 && random_.chance(scenario_.wrong_clocks)) {
      step_clock(*proxy, choose_step());
    }
  }
  calm_ = true;
  run_until(seconds(2), [this] { return is_settled(); });
  calm_ = false;
  decider_wanted_ = true;
  keep_a_decider();
}

void World::work() {
  plan_faults();
  start_clients(scenario_.operations);
  run_until(scenario_.faults_until, [this] { return clients_left_ == 0; });
  // Some schedules heal while clients are still at work, others when all are done.
  if (random_.chance(0.5)) run_until(kHealLimit, [this] { return clients_left_ == 0; });
}

void World::heal() {
  trace_.add("-- heal");
  calm_ = true;
  network_.calm();
  network_.mend_all();
  for (size_t id = 0; id < network_.nodes(); ++id) {
    network_.node(id).resume();
    const bool returns =
        !buried_.contains(static_cast<node::NodeId>(id)) || random_.chance(scenario_.returns);
    if (returns && network_.node(id).is_stray()) network_.node(id).kill(false);
    if (returns && !network_.node(id).is_up()) network_.node(id).start();
  }
  for (auto& proxy : proxies_) proxy->resume();
  set_clocks_right();
  if (!run_until(kHealLimit, [this] { return clients_left_ == 0; })) {
    return violation(Fault::kStuck, "a client's operation does not end");
  }
  if (!run_until(kHealLimit, [this] { return accepts_doubt() || is_settled(); })) {
    unsettled("the cluster does not heal");
  }
  // What was written to LOST partitions is synced last, and nobody tells when.
  if (scenario_.accept_loss) run_until(seconds(2), [] { return false; });
}

// A decider that waits before its first map is helped by the operator: who is dead is declared so,
// and what survivors of more than m deaths can not vouch for is given up. True never: what follows
// has to be waited for as before.
bool World::accepts_doubt() {
  SimProxy* proxy = decider();
  if (proxy == nullptr) return false;
  const ClusterStatus status = proxy->decider()->status();
  if (status.state != "waiting" || status.partitions > 0) return false;
  for (const NodeStatus& node : status.nodes) {
    if (!node_is_up(node.info.id)) (void)proxy->decider()->declare_dead(node.info.name);
  }
  if (is_beyond_promise() && status.can_accept_loss) {
    trace_.add("-- the operator accepts what a takeover can not vouch for");
    gave_up_silent_ = true;
    (void)proxy->decider()->accept_loss();
  }
  return false;
}

// The cluster did not come to rest: because memory that was not lost counts as lost, or stuck.
void World::unsettled(const char* what) {
  SimProxy* proxy = decider();
  const bool lost = proxy != nullptr && proxy->decider()->status().partitions_lost > 0;
  // A damaged copy is a copy less, as a failed node is.
  const bool is_damaged = result_.totals.bit_flips > 0 && failed_.size() > tolerated();
  if (is_damaged || ((lost || !buried_.empty()) && is_beyond_promise())) {
    // Not a violation, but counted: timeouts and crashes together were more than m.
    over_ = true;
    ++result_.totals.beyond_promise;
    return;
  }
  violation(lost ? Fault::kLost : Fault::kStuck, fmt::format("{}: {}", what, why_unsettled()));
}

void World::shut_down() {
  for (size_t id = 0; id < network_.nodes(); ++id) {
    if (network_.node(id).is_harmed()) {
      violation(Fault::kTorn, fmt::format("the stray at node {} has another map or records", id));
    }
  }
  trace_.add("-- shut down");
  decider_wanted_ = false;
  for (auto& proxy : proxies_) {
    add_counters(result_.totals.ops, proxy->counters());
    if (proxy->is_alive()) proxy->kill();
  }
  clock_.cancel();
  for (auto& [index, pending] : pending_) give_up(*pending);
  for (auto& proxy : proxies_) CHECK(proxy->is_quiet(), "a flow does not end when its proxy dies");
  CHECK(flows_.live() == 0, "a client's operation does not end when its proxy dies");

  const Network::Counters& net = network_.counters();
  result_.totals.frames = net.frames;
  result_.totals.dropped = net.dropped;
  result_.totals.duplicated = net.duplicated;
  result_.totals.late = net.late;
  result_.totals.events = events_.events_run();
  result_.totals.schedules = 1;
  result_.totals.short_of_room = had_too_little_room_;
  if (followed_ != nullptr) result_.totals.epochs = followed_->epoch.number;
}

// The cluster.

SimProxy* World::add_proxy() {
  const int id = static_cast<int>(proxies_.size());
  const Configuration& own = *configurations_.back();
  proxies_.push_back(std::make_unique<SimProxy>(id, events_, network_, random_.next(), own.ring,
                                                own.pools, own.ops, scenario_.proxy_memory));
  scheduled_epochs_.push_back(0);
  heard_epochs_.push_back(0);
  trace_.add("proxy {} starts", id);
  return proxies_.back().get();
}

bool World::is_deciding(SimProxy& proxy) {
  return proxy.decider() != nullptr && !proxy.decider_has_ended();
}

SimProxy* World::decider() {
  if (decider_ < 0) return nullptr;
  SimProxy* proxy = proxies_[static_cast<size_t>(decider_)].get();
  return proxy->is_alive() && !proxy->decider_has_ended() ? proxy : nullptr;
}

// The stand-in for a watch on the published maps: each proxy hears of them late, in its own time.
void World::follow_maps() {
  SimProxy* source = decider();
  if (source != nullptr) {
    if (auto map = source->map().current()) {
      if (followed_ == nullptr || map->epoch.number > followed_->epoch.number) {
        followed_ = map;
        trace_.add("epoch {} is served", map->epoch.number);
      }
    }
  }
  for (size_t i = 0; followed_ != nullptr && i < proxies_.size(); ++i) {
    SimProxy* proxy = proxies_[i].get();
    if (const auto held = proxy->map().current()) {
      up_in_epoch_[held->epoch.number] = static_cast<size_t>(
          std::ranges::count(held->nodes, node::NodeState::kUp, &node::NodeInfo::state));
      newest_epoch_ = std::max(newest_epoch_, held->epoch.number);
    }
    if (source != nullptr && proxy != source) share_rooms(source->map(), proxy->map());
    const uint32_t number = followed_->epoch.number;
    if (proxy == source || !proxy->is_alive()) continue;
    const auto own = proxy->map().current();
    if (own != nullptr && own->epoch.number >= number) continue;
    if (scheduled_epochs_[i] == number && own != nullptr) continue;
    scheduled_epochs_[i] = number;
    const Duration delay =
        calm_ ? Duration::zero() : random_.between(Duration::zero(), scenario_.map_delay_max);
    proxy->clock().post(events_.now() + delay, [this, proxy, i, map = followed_] {
      // One that was deposed since has no map, yet knows better than an old one.
      if (map->epoch.number < heard_epochs_[i]) return;
      heard_epochs_[i] = map->epoch.number;
      const auto held = proxy->map().current();
      if (held != nullptr && held->epoch.number >= map->epoch.number) return;
      trace_.add("proxy {} hears of epoch {}", proxy->id(), map->epoch.number);
      proxy->map().serve(map);
    });
  }
  count_failures();
  events_.after(kFollowEvery, [this] { follow_maps(); });
}

void World::tick_nodes() {
  for (size_t id = 0; id < network_.nodes(); ++id) network_.node(id).tick();
  events_.after(kTickEvery, [this] { tick_nodes(); });
}

void World::start_new_decider() {
  if (decider_wanted_) change_configuration();
  SimProxy* proxy = add_proxy();
  decider_ = static_cast<int>(proxies_.size()) - 1;
  DeciderSettings settings = configurations_.back()->decider;
  std::set<node::NodeId>& vouched_dead = vouched_dead_[decider_];
  if (scenario_.forced > 0 && (!has_majority({}) || random_.chance(scenario_.forced))) {
    vouched_dead = silent_nodes();
    settings.force_epoch = !vouched_dead.empty();
  }
  if (settings.force_epoch) {
    ++result_.totals.forced;
    trace_.add("decider {} is told that whoever is silent is dead", proxy->id());
  }
  proxy->start_decider(settings);
}

// Before a decider starts: its operator has added a node, and has ended whoever decides by the list
// without it. Should all nodes of that have started again, such a one could not know better than to
// make a cluster of them.
void World::change_configuration() {
  const auto nodes = static_cast<size_t>(scenario_.nodes + scenario_.joiners);
  if (network_.nodes() >= nodes || !random_.chance(0.6)) return;
  trace_.add("a node is added to the configuration");
  ++result_.totals.joiners;
  SimNode& joiner = network_.add_node();
  joiner.start();
  if (scenario_.records_only) doomed_.push_back(joiner.id());
  for (auto& proxy : proxies_) {
    if (proxy->is_alive() && is_deciding(*proxy)) kill_proxy(*proxy);
  }
  configurations_.push_back(std::make_unique<Configuration>(scenario_, network_.nodes(), scheme_));
}

// With other pools: that needs all of them to start again.
void World::restart_proxies() {
  scheme_ = scheme_ == scenario_.scheme ? scenario_.other_scheme : scenario_.scheme;
  trace_.add("all proxies start again, with {}", scheme_);
  ++result_.totals.restarts;
  for (auto& proxy : proxies_) {
    if (proxy->is_alive()) kill_proxy(*proxy);
  }
  configurations_.push_back(std::make_unique<Configuration>(scenario_, network_.nodes(), scheme_));
  start_new_decider();
}

void World::keep_a_decider() {
  if (!decider_wanted_) return;
  // The operator can tell the dead from the silent.
  const bool is_stuck = scenario_.forced > 0 && !has_majority(vouched_dead_[decider_]);
  if (is_stuck && decider() != nullptr) kill_proxy(*decider());
  // Enough of races once all is calm.
  for (size_t i = 0; calm_ && decider() == nullptr && i < proxies_.size(); ++i) {
    SimProxy& other = *proxies_[i];
    if (other.is_alive() && is_deciding(other)) decider_ = static_cast<int>(i);
  }
  if (decider() == nullptr) start_new_decider();
  events_.after(random_.between(milliseconds(20), milliseconds(1000)),
                [this] { keep_a_decider(); });
}

std::string World::why_unsettled() {
  SimProxy* proxy = decider();
  if (proxy == nullptr) return "there is no decider";
  const ClusterStatus status = proxy->decider()->status();
  std::string text = fmt::format("{} {} epoch {} synced {}/{} lost {}:", status.state,
                                 status.reason, status.epoch.number, status.partitions_synced,
                                 status.partitions, status.partitions_lost);
  for (const NodeStatus& node : status.nodes) text += fmt::format(" {}", name(node.info.state));
  return text;
}

bool World::is_settled() {
  SimProxy* proxy = decider();
  if (proxy == nullptr) return false;
  const node::MapPtr map = proxy->map().current();
  if (map == nullptr) return false;
  if (map->nodes.size() < network_.nodes()) return false;
  for (const node::NodeInfo& node : map->nodes) {
    if ((node.state == node::NodeState::kUp) != node_is_up(node.id)) return false;
  }
  const ClusterStatus status = proxy->decider()->status();
  if (status.state != "serving" || status.partitions == 0) return false;
  const uint32_t lost = scenario_.beyond_promise && !accepted_loss_ ? status.partitions_lost : 0;
  if (status.partitions_synced + lost < status.partitions) return false;
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

// The map has dealt with the death of the node.
bool World::is_settled_without(node::NodeId id) {
  SimProxy* proxy = decider();
  if (proxy == nullptr || proxy->map().current() == nullptr) return false;
  const ClusterStatus status = proxy->decider()->status();
  return status.state == "serving" && status.nodes[id].info.state == node::NodeState::kLost &&
         status.partitions_synced == status.partitions;
}

// Verdicts.

namespace {

// True if the bytes are not made of what clients wrote.
bool is_torn(const History& history, std::string bytes) {
  uint64_t number = 0;
  for (const Operation& op : history) {
    if (op.value.empty()) continue;
    if (const size_t at = bytes.find(op.value); at != std::string::npos) {
      bytes.erase(at, op.value.size());
    }
  }
  return !bytes.empty() && !parse_number(bytes, number);
}

}  // namespace

void World::check_histories() {
  Totals& totals = result_.totals;
  for (const Operation& op : history_) {
    ++totals.operations;
    if (op.verb == Verb::kTransition) {
      totals.transitions += op.error == "transitioned";
      totals.refused_transitions += op.error.starts_with("refused");
      continue;
    }
    const bool read = op.verb == Verb::kGet;
    if (op.answer == Answer::kUnknown && !read) ++totals.unknowns;
    if (op.answer == Answer::kNone) ++totals.errors;
    if (op.answer == Answer::kDone && op.verb != Verb::kLose) ++totals.acknowledged_writes;
    if (op.error.starts_with("no_space")) ++totals.refused_for_memory;
    totals.streams += is_streamed(op);
    totals.cut_reads += op.answer == Answer::kCutOff;
    totals.cut_uploads += !read && op.error.starts_with("cancelled");
  }
  for (int key = 0; key < scenario_.keys; ++key) {
    ++totals.histories;
    const Check check = check_key(history_, key_name(key));
    if (check.verdict == Verdict::kUndecided) {
      violation(Fault::kUndecided, fmt::format("the search gave up on {}", key_name(key)));
    } else if (check.verdict == Verdict::kNotLinearizable) {
      const Operation& stuck = history_[check.stuck_at];
      Fault fault = stuck.client == kAuditor ? Fault::kLost : Fault::kStale;
      if (stuck.answer == Answer::kHit && is_torn(history_, stuck.read_value)) fault = Fault::kTorn;
      // What the run itself noticed came of the same cause.
      if (result_.fault != Fault::kStuck) result_.fault = Fault::kNone;
      violation(fault, fmt::format("no order explains: {}", to_string(stuck)));
    }
    if (auto text = check_cas_uniques(history_, key_name(key)); !text.empty()) {
      violation(Fault::kVersions, text);
    }
  }
}

}  // namespace elastripe::sim
