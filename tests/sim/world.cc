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

coding::Scheme scheme_of(const std::string& text) {
  const auto scheme = coding::parse_scheme(text);
  CHECK(scheme.has_value(), "{}", scheme.error());
  return *scheme;
}

std::vector<Pool> pools_of(const Scenario& scenario) {
  std::vector<Pool> pools(1);
  pools[0].scheme = scheme_of(scenario.scheme);
  pools[0].inline_max_bytes = scenario.inline_max_bytes;
  pools[0].segment_bytes = scenario.segment_bytes;
  pools[0].degraded_writes = scenario.degraded_writes;
  for (const ScenarioPool& more : scenario.more_pools) {
    Pool& pool = pools.emplace_back();
    pool.prefix = more.prefix;
    pool.scheme = scheme_of(more.scheme);
    pool.inline_max_bytes = more.inline_max_bytes;
    pool.segment_bytes = more.segment_bytes;
  }
  return pools;
}

std::vector<std::string> names_of(const Scenario& scenario) {
  std::vector<std::string> names;
  for (int id = 0; id < scenario.nodes; ++id) names.push_back(fmt::format("node-{}", id));
  return names;
}

OpsSettings ops_settings(const Scenario& scenario) {
  OpsSettings settings;
  settings.request_timeout = kRequestTimeout;
  settings.node_timeout = milliseconds(300);
  settings.read_grace = scenario.read_grace;
  settings.upload_idle = scenario.upload_idle;
  settings.tombstone_keep = milliseconds(4000);
  return settings;
}

DeciderSettings decider_settings(const Scenario& scenario, const std::vector<std::string>& names) {
  DeciderSettings settings;
  for (const std::string& name : names) settings.nodes.push_back({name, "127.0.0.1", 1, name});
  settings.partitions = scenario.partitions;
  settings.heartbeat = milliseconds(50);
  settings.suspect_after = milliseconds(400);
  settings.lease = milliseconds(1000);
  return settings;
}

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
      node_names_(names_of(scenario)),
      pools_(pools_of(scenario)),
      ring_(node_names_, scenario.partitions),
      ops_settings_(ops_settings(scenario)),
      decider_settings_(decider_settings(scenario, node_names_)),
      network_(events_, trace_, random_.next(), scenario.network, scenario.nodes,
               scenario.node_memory) {
  std::vector<node::NodeId> ids;
  for (int id = 0; id < scenario.nodes; ++id) ids.push_back(static_cast<node::NodeId>(id));
  // Were all nodes empty at once, a new and empty cluster would be formed.
  size_t most =
      scenario.beyond_promise ? ids.size() - 1 : static_cast<size_t>(pools_.max_parities());
  if (!scenario.more_pools.empty()) {
    // What each pool survives, in turn.
    const Pool& pool = pools_.pools()[random_.below(pools_.pools().size())];
    most = static_cast<size_t>(pool.scheme.m);
  }
  if (scenario.records_only) most = ids.size();
  while (doomed_.size() < most) {
    const size_t pick = random_.below(ids.size());
    doomed_.push_back(ids[pick]);
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(pick));
  }
}

World::~World() = default;

RunResult World::run() {
  form();
  const auto goes_on = [this] { return result_.ok() && !over_; };
  if (goes_on()) work();
  if (goes_on()) heal();
  if (goes_on()) audit("after healing");
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
  add_proxy()->start_decider(decider_settings_);
  decider_ = 0;
  if (!run_until(kHealLimit, [this] { return is_settled(); })) {
    return unsettled("no cluster is formed");
  }
  while (static_cast<int>(proxies_.size()) < scenario_.proxies) add_proxy();
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
    if (!network_.node(id).is_up()) network_.node(id).start();
  }
  for (auto& proxy : proxies_) proxy->resume();
  if (!run_until(kHealLimit, [this] { return clients_left_ == 0; })) {
    return violation(Fault::kStuck, "a client's operation does not end");
  }
  if (!run_until(kHealLimit, [this] { return is_settled(); })) {
    unsettled("the cluster does not heal");
  }
  // What was written to LOST partitions is synced last, and nobody tells when.
  if (scenario_.accept_loss) run_until(seconds(2), [] { return false; });
}

// The cluster did not come to rest: because memory that was not lost counts as lost, or stuck.
void World::unsettled(const char* what) {
  SimProxy* proxy = decider();
  const bool lost = proxy != nullptr && proxy->decider()->status().partitions_lost > 0;
  if (lost && is_beyond_promise()) {
    // Not a violation, but counted: timeouts and crashes together were more than m.
    over_ = true;
    ++result_.totals.beyond_promise;
    return;
  }
  violation(lost ? Fault::kLost : Fault::kStuck, fmt::format("{}: {}", what, why_unsettled()));
}

void World::shut_down() {
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
  proxies_.push_back(std::make_unique<SimProxy>(id, events_, network_, random_.next(), ring_,
                                                pools_, ops_settings_, scenario_.proxy_memory));
  scheduled_epochs_.push_back(0);
  heard_epochs_.push_back(0);
  trace_.add("proxy {} starts", id);
  return proxies_.back().get();
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

// The promise is about m failures between two complete syncs, and a node that was excluded by a
// timeout is one of them: it comes back with its shards, but is no source of records.
void World::count_failures() {
  SimProxy* source = decider();
  if (source == nullptr) return;
  const ClusterStatus status = source->decider()->status();
  std::set<node::NodeId> suspects;
  bool whole = status.state == "serving" && status.partitions > 0 &&
               status.partitions_synced == status.partitions && status.partitions_short == 0;
  had_too_little_room_ |= status.partitions_short > 0;
  for (const NodeStatus& node : status.nodes) {
    if (node.info.state != node::NodeState::kUp && !scenario_.records_only) whole = false;
  }
  // Whoever makes maps may exclude nodes: a decider that is about to be deposed, too.
  for (const auto& proxy : proxies_) {
    if (!proxy->is_alive() || proxy->decider() == nullptr || proxy->decider_has_ended()) continue;
    for (const NodeStatus& node : proxy->decider()->status().nodes) {
      if (node.info.state == node::NodeState::kSuspect) suspects.insert(node.info.id);
    }
  }
  for (const node::NodeId id : killed_)
    whole &= scenario_.records_only || network_.node(id).is_up();
  if (whole && status.epoch.number > failed_in_epoch_) failed_.clear();
  failed_.insert(suspects.begin(), suspects.end());
  suspected_.insert(suspects.begin(), suspects.end());
  if (!whole) failed_in_epoch_ = std::max(failed_in_epoch_, status.epoch.number);
}

void World::tick_nodes() {
  for (size_t id = 0; id < network_.nodes(); ++id) network_.node(id).tick();
  events_.after(kTickEvery, [this] { tick_nodes(); });
}

void World::start_new_decider() {
  SimProxy* proxy = add_proxy();
  decider_ = static_cast<int>(proxies_.size()) - 1;
  proxy->start_decider(decider_settings_);
}

void World::keep_a_decider() {
  if (!decider_wanted_) return;
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

bool World::is_beyond_promise() const {
  return (scenario_.beyond_promise && !accepted_loss_) ||
         failed_.size() > static_cast<size_t>(pools_.max_parities());
}

// Shards are not repaired, so whatever died since an object was written counts for it; in a pool
// that writes with too few nodes, so does who was out. why_unreadable() is exact about it.
bool World::may_lack_shards(const std::string& key) const {
  const Pool& pool = pools_.pool_of(key);
  std::set<node::NodeId> gone = killed_;
  if (pool.degraded_writes) gone.insert(suspected_.begin(), suspected_.end());
  return is_beyond_promise() || gone.size() > static_cast<size_t>(pool.scheme.m);
}

bool World::is_settled() {
  SimProxy* proxy = decider();
  if (proxy == nullptr) return false;
  const node::MapPtr map = proxy->map().current();
  if (map == nullptr) return false;
  for (const node::NodeInfo& node : map->nodes) {
    if (node.state != node::NodeState::kUp) return false;
  }
  const ClusterStatus status = proxy->decider()->status();
  if (status.state != "serving" || status.partitions == 0) return false;
  const uint32_t lost = scenario_.beyond_promise && !accepted_loss_ ? status.partitions_lost : 0;
  if (status.partitions_synced + lost < status.partitions) return false;
  for (const NodeStatus& node : status.nodes) {
    if (!node.has_lease) return false;
  }
  return std::ranges::all_of(proxies_, [&](const auto& other) {
    if (!other->is_alive()) return true;
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
