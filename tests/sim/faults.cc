// World's faults.
#include <set>

#include "proxy/base/check.h"
#include "tests/sim/world_internal.h"

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

void World::plan_faults() {
  const auto plan = [this](int most, void (World::*fault)()) {
    const uint64_t count = random_.below(static_cast<uint64_t>(most) + 1);
    for (uint64_t i = 0; i < count; ++i) {
      events_.after(random_.between(Duration::zero(), scenario_.faults_until), [this, fault] {
        if (!calm_) (this->*fault)();
      });
    }
  };
  plan(scenario_.node_kills, &World::kill_a_node);
  if (scenario_.burials > 0) {
    events_.after(random_.between(Duration::zero(), seconds(1)), [this] { bury_one(); });
  }
  for (int i = 0; i < scenario_.catastrophes; ++i) {
    events_.after(random_.between(scenario_.faults_until / 8, scenario_.faults_until), [this] {
      if (!calm_) kill_many();
    });
  }
  plan(scenario_.node_stalls, &World::stall_a_node);
  plan(scenario_.node_sticks, &World::stick_a_node);
  plan(scenario_.bit_flips, &World::flip_a_bit);
  plan(scenario_.clock_steps, &World::step_a_clock);
  plan(scenario_.restarts, &World::restart_proxies);
  plan(scenario_.link_cuts, &World::cut_a_link);
  plan(scenario_.proxy_kills, &World::kill_a_proxy);
  plan(scenario_.proxy_pauses, &World::pause_a_proxy);
  network_.watch_commits(
      [this](int proxy, node::NodeId head, uint32_t epoch, const node::Record* record) {
        newest_epoch_ = std::max(newest_epoch_, epoch);
        if (record != nullptr) note_reshapes(*record);
        if (scenario_.head_kills > 0 || scenario_.committer_kills > 0)
          fault_after_commit(proxy, head);
      });
  network_.watch_installs([this](const node::ClusterMap& map) { note_installed(map); });
  if (scenario_.stager_pauses > 0) {
    network_.watch_staging([this](int proxy) {
      if (calm_ || !random_.chance(scenario_.stager_pauses)) return;
      pause_proxy(*proxies_[static_cast<size_t>(proxy)]);
    });
  }
}

// The moments that random kills hardly ever hit.
void World::fault_after_commit(int proxy, node::NodeId head) {
  if (calm_) return;
  if (random_.chance(scenario_.head_kills)) {
    // The answer has left: it is in the network.
    events_.after(milliseconds(0), [this, head] {
      if (!calm_ && network_.node(head).is_up()) kill_node(network_.node(head));
    });
  }
  if (random_.chance(scenario_.committer_kills)) {
    events_.after(random_.between(Duration::zero(), scenario_.network.slow_max), [this, proxy] {
      SimProxy& victim = *proxies_[static_cast<size_t>(proxy)];
      if (!calm_ && victim.is_alive()) kill_proxy(victim);
    });
  }
}

// What was answered is at all its places, at this very instant: one of them dies.
void World::fault_after_answer(const Operation& op) {
  if (calm_ || followed_ == nullptr || !random_.chance(scenario_.answer_kills)) return;
  std::vector<node::NodeId> victims = doomed_;
  if (random_.chance(0.5)) {  // a home; else most hold a shard
    const auto& homes = followed_->partitions[followed_->partition_of(op.key)].homes;
    std::erase_if(victims,
                  [&](node::NodeId id) { return std::ranges::find(homes, id) == homes.end(); });
  }
  if (victims.empty()) return;
  SimNode& victim = network_.node(victims[random_.below(victims.size())]);
  if (victim.is_up()) kill_node(victim);
}

void World::kill_a_node() {
  SimNode& victim = network_.node(doomed_[random_.below(doomed_.size())]);
  if (!victim.is_up()) return;
  const bool whole = scenario_.domain_kills > 0 && random_.chance(scenario_.domain_kills);
  if (whole && may_fail(victim.id())) trace_.add("{} dies", domain_of(scenario_, victim.id()));
  for (size_t id = 0; whole && id < network_.nodes(); ++id) {
    const bool is_near = domain_of(scenario_, id) == domain_of(scenario_, victim.id());
    if (is_near && id != victim.id() && network_.node(id).is_up()) kill_node(network_.node(id));
  }
  kill_node(victim);
}

// More than m of the doomed, in a moment.
void World::kill_many() {
  const size_t m = tolerated();
  CHECK(doomed_.size() > m);
  const size_t count = m + 1 + random_.below(doomed_.size() - m);
  const size_t first = random_.below(doomed_.size());
  for (size_t i = 0; i < count; ++i) {
    const node::NodeId id = doomed_[(first + i) % doomed_.size()];
    events_.after(random_.between(Duration::zero(), milliseconds(30)), [this, id] {
      if (!calm_ && network_.node(id).is_up()) kill_node(network_.node(id));
    });
  }
}

void World::kill_node(SimNode& victim) {
  if (!may_fail(victim.id()) || !can_spare(victim.id(), false)) return;
  note_failure(victim.id());
  victim.kill(random_.chance(scenario_.silent_kills) && can_spare(victim.id(), true));
  // Back soon, before anybody has noticed, or after it has been excluded.
  Duration away = random_.chance(scenario_.quick_restarts)
                      ? random_.between(milliseconds(1), milliseconds(60))
                      : random_.between(milliseconds(1), scenario_.fault_max);
  if (const Duration every = scenario_.restart_every; every > Duration::zero()) {
    away += every - (events_.now() + away).time_since_epoch() % every;
  }
  events_.after(away, [this, &victim] {
    if (victim.is_up()) return;
    victim.start();
    SimProxy* proxy = decider();
    if (calm_ || proxy == nullptr || !random_.chance(scenario_.restart_cuts)) return;
    cut(*proxy, static_cast<node::NodeId>(random_.below(network_.nodes())), seconds(1));
  });
}

// It knows nothing of this cluster, and must get no part in it.
void World::put_stray(SimNode& at) {
  if (calm_ || at.runs()) return;
  ++result_.totals.strays;
  at.start_stray();
}

void World::stall_a_node() {
  SimNode& victim = network_.node(random_.below(network_.nodes()));
  if (!victim.is_up() || victim.is_stalled()) return;
  ++result_.totals.node_stalls;
  victim.stall();
  events_.after(random_.between(milliseconds(10), scenario_.fault_max),
                [&victim] { victim.resume(); });
}

// A node that answers no data frame is of no use, however well it answers heartbeats.
void World::stick_a_node() {
  SimNode& victim = network_.node(random_.below(network_.nodes()));
  if (!victim.is_up() || victim.is_stalled() || victim.is_stuck()) return;
  ++result_.totals.node_sticks;
  victim.stick();
  const uint64_t stick = victim.sticks();
  const bool is_long = random_.chance(0.5);
  const auto limit =
      milliseconds(SimNode::kStuckAfter_ms) + configurations_.back()->decider.lease + seconds(1);
  events_.after(limit, [this, &victim, stick] {
    if (victim.sticks() != stick || !victim.is_stuck() || !victim.has_lease()) return;
    violation(Fault::kStuck,
              fmt::format("node {} keeps its lease and serves no data", victim.id()));
  });
  const Duration longest = is_long ? limit + seconds(2) : scenario_.fault_max;
  events_.after(random_.between(is_long ? limit : milliseconds(10), longest), [&victim, stick] {
    if (victim.sticks() == stick) victim.resume();
  });
}

// One copy of a key at a time counts for at most one failure; it does so until the key is written
// again. A copy that is just being written is left alone.
void World::flip_a_bit() {
  SimNode& victim = network_.node(random_.below(network_.nodes()));
  if (!victim.is_up()) return;
  const uint64_t seed = random_.next();
  const std::string key = victim.store().corrupt(seed);
  if (key.empty()) return;
  const bool is_written = std::ranges::any_of(history_, [&](const Operation& op) {
    return op.key == key && op.verb != Verb::kGet && op.returned == UINT64_MAX &&
           op.answer == Answer::kUnknown;
  });
  if (is_written || !flipped_.insert(key).second) {
    victim.store().corrupt(seed);  // and back
    return;
  }
  ++result_.totals.bit_flips;
  trace_.add("node {}: a bit of the record of {} flips", victim.id(), key);
}

SimProxy* World::victim_proxy() {
  if (random_.chance(scenario_.at_decider)) return decider();
  return choose_proxy(random_);
}

void World::cut_a_link() {
  SimProxy* proxy = victim_proxy();
  if (proxy == nullptr) return;
  const auto id = static_cast<node::NodeId>(random_.below(network_.nodes()));
  cut(*proxy, id, random_.between(milliseconds(10), scenario_.fault_max));
}

void World::cut(SimProxy& proxy, node::NodeId id, Duration how_long) {
  ++result_.totals.link_cuts;
  trace_.add("the link of proxy {} and node {} is cut", proxy.id(), id);
  network_.cut(proxy.id(), id);
  events_.after(how_long, [this, &proxy, id] {
    trace_.add("the link of proxy {} and node {} is mended", proxy.id(), id);
    network_.mend(proxy.id(), id);
  });
}

void World::kill_a_proxy() {
  SimProxy* proxy = victim_proxy();
  if (proxy != nullptr) kill_proxy(*proxy);
}

void World::kill_proxy(SimProxy& proxy) {
  ++result_.totals.proxy_kills;
  trace_.add("proxy {} is killed", proxy.id());
  count_failures();  // a map that it has just made may exclude a node
  proxy.kill();
  const bool was_decider = proxy.decider() != nullptr;
  if (was_decider) return;  // keep_a_decider() starts the next one
  events_.after(random_.between(milliseconds(10), milliseconds(1000)), [this] {
    if (decider_wanted_) add_proxy();
  });
}

void World::pause_a_proxy() {
  SimProxy* proxy = victim_proxy();
  if (proxy != nullptr) pause_proxy(*proxy);
}

void World::pause_proxy(SimProxy& paused) {
  SimProxy* const proxy = &paused;
  if (!proxy->is_alive() || proxy->clock().paused()) return;
  ++result_.totals.proxy_pauses;
  trace_.add("proxy {} is paused", proxy->id());
  proxy->pause();
  const Duration pause = random_.between(milliseconds(10), scenario_.fault_max);
  // A paused decider may be taken for dead: it must then be harmless.
  if (proxy == decider() && random_.chance(0.6)) {
    events_.after(random_.between(Duration::zero(), pause), [this, proxy] {
      if (decider_wanted_ && !calm_ && decider() == proxy) start_new_decider();
    });
  }
  events_.after(pause, [this, proxy] {
    trace_.add("proxy {} goes on", proxy->id());
    proxy->resume();
  });
}

// Of all that were ever served. A decider that has been deposed has no map any more, and whoever
// follows it may serve none yet; but what was committed under its last one is as whole as ever, and
// a node that dies in between takes shards of that epoch along.
uint32_t World::newest_epoch() {
  for (const auto& proxy : proxies_) {
    const node::MapPtr map = proxy->map().current();
    if (map != nullptr) newest_epoch_ = std::max(newest_epoch_, map->epoch.number);
  }
  return newest_epoch_;
}

}  // namespace elastripe::sim
