// World's faults, and what must be gone when they are over.
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
  plan(scenario_.node_stalls, &World::stall_a_node);
  plan(scenario_.link_cuts, &World::cut_a_link);
  plan(scenario_.proxy_kills, &World::kill_a_proxy);
  plan(scenario_.proxy_pauses, &World::pause_a_proxy);
  if (scenario_.head_kills > 0 || scenario_.committer_kills > 0) {
    network_.watch_commits(
        [this](int proxy, node::NodeId head) { fault_after_commit(proxy, head); });
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

void World::kill_a_node() {
  SimNode& victim = network_.node(doomed_[random_.below(doomed_.size())]);
  if (victim.is_up()) kill_node(victim);
}

void World::kill_node(SimNode& victim) {
  std::set<node::NodeId> failed = failed_;
  failed.insert(victim.id());
  const auto m = static_cast<size_t>(pools_.max_parities());
  if (failed.size() > m && !scenario_.beyond_promise) return;
  failed_ = std::move(failed);
  killed_.insert(victim.id());
  last_kill_[victim.id()] = newest_epoch();
  if (followed_ != nullptr) failed_in_epoch_ = std::max(failed_in_epoch_, followed_->epoch.number);
  ++result_.totals.node_kills;
  victim.kill(random_.chance(scenario_.silent_kills));
  // Back soon, before anybody has noticed, or after it has been excluded.
  Duration away = random_.chance(scenario_.quick_restarts)
                      ? random_.between(milliseconds(1), milliseconds(60))
                      : random_.between(milliseconds(1), scenario_.fault_max);
  if (scenario_.restart_together) {
    away += seconds(1) - (events_.now() + away).time_since_epoch() % seconds(1);
  }
  events_.after(away, [&victim] {
    if (!victim.is_up()) victim.start();
  });
}

void World::stall_a_node() {
  SimNode& victim = network_.node(random_.below(network_.nodes()));
  if (!victim.is_up() || victim.is_stalled()) return;
  ++result_.totals.node_stalls;
  victim.stall();
  events_.after(random_.between(milliseconds(10), scenario_.fault_max),
                [&victim] { victim.resume(); });
}

SimProxy* World::victim_proxy() {
  if (random_.chance(scenario_.at_decider)) return decider();
  return choose_proxy(random_);
}

void World::cut_a_link() {
  SimProxy* proxy = victim_proxy();
  if (proxy == nullptr) return;
  ++result_.totals.link_cuts;
  const auto id = static_cast<node::NodeId>(random_.below(network_.nodes()));
  trace_.add("the link of proxy {} and node {} is cut", proxy->id(), id);
  network_.cut(proxy->id(), id);
  events_.after(random_.between(milliseconds(10), scenario_.fault_max), [this, proxy, id] {
    trace_.add("the link of proxy {} and node {} is mended", proxy->id(), id);
    network_.mend(proxy->id(), id);
  });
}

void World::kill_a_proxy() {
  SimProxy* proxy = victim_proxy();
  if (proxy != nullptr) kill_proxy(*proxy);
}

void World::kill_proxy(SimProxy& proxy) {
  ++result_.totals.proxy_kills;
  trace_.add("proxy {} is killed", proxy.id());
  proxy.kill();
  const bool was_decider = proxy.decider() != nullptr;
  if (was_decider) return;  // keep_a_decider() starts the next one
  events_.after(random_.between(milliseconds(10), milliseconds(1000)), [this] {
    if (decider_wanted_) add_proxy();
  });
}

void World::pause_a_proxy() {
  SimProxy* proxy = victim_proxy();
  if (proxy == nullptr || proxy->clock().paused()) return;
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

// Everything that no record refers to is collected in the end.

void World::reclaim() {
  trace_.add("-- wait for reclaim");
  for (int tries = 0; tries < 3; ++tries) {
    run_until(seconds(8), [] { return false; });
    leak_.clear();
    flows_.spawn(look_for_leaks());
    bool done = false;
    run_until(seconds(30), [&] { return done = leaks_checked_; });
    CHECK(done, "the search for leaks does not end");
    if (leak_.empty()) return;
  }
  violation(Fault::kLeak, leak_);
}

// Every shard was confirmed in the epoch of its commit (rule 6a), so only a node that was killed
// since then may lack one.
void World::check_shards(const ObjectReport& report) {
  const uint64_t epoch = report.record->meta.value_version >> node::kCounterBits;
  for (size_t i = 0; i < report.segments.size(); ++i) {
    for (const uint8_t index : report.segments[i].missing) {
      const node::NodeId id = report.record->content.segments[i].placement[index];
      const auto kill = last_kill_.find(id);
      if (kill != last_kill_.end() && kill->second >= epoch) continue;
      violation(Fault::kLost, fmt::format("an object of epoch {} lacks shard {}.{} of node {}, "
                                          "whose memory was not lost since",
                                          epoch, i, index, id));
    }
  }
}

uint32_t World::newest_epoch() const {
  uint32_t newest = 0;
  for (const auto& proxy : proxies_) {
    const node::MapPtr map = proxy->map().current();
    if (map != nullptr) newest = std::max(newest, map->epoch.number);
  }
  return newest;
}

Task<void> World::look_for_leaks() {
  leaks_checked_ = false;
  SimProxy* proxy = decider();
  std::set<std::pair<node::NodeId, std::string>> wanted;  // (node, encoded shard name)
  for (int key = 0; proxy != nullptr && key < scenario_.keys; ++key) {
    auto report =
        co_await inspect_object(proxy->ops(), key_name(key), clock_.now() + kRequestTimeout);
    if (!report) {
      leak_ = "a record can not be read: " + to_string(report.error());
      leaks_checked_ = true;
      co_return;
    }
    if (report->record == nullptr) continue;
    check_shards(*report);
    for (const node::Segment& segment : report->record->content.segments) {
      for (size_t index = 0; index < segment.placement.size(); ++index) {
        const bool parity = index >= report->record->content.scheme.k_prime;
        std::string name;
        node::encode(node::ShardName{segment.data_txid, segment.number,
                                     parity ? segment.generation : 0, static_cast<uint8_t>(index)},
                     name);
        wanted.insert({segment.placement[index], std::move(name)});
      }
    }
  }
  for (size_t id = 0; id < network_.nodes(); ++id) {
    if (!network_.node(id).is_up()) continue;
    node::ArenaStore& store = network_.node(id).store();
    uint64_t cursor = 0;
    do {
      cursor = store.walk(cursor, [&](const node::ItemRef& item) {
        const std::string_view key = store.key(item);
        if (key.empty() || key[0] != '\x02') return true;
        if (!wanted.contains({static_cast<node::NodeId>(id), std::string(key.substr(1))})) {
          node::Reader reader(node::as_view(key.substr(1)));
          const node::ShardName name = node::decode_name(reader);
          leak_ = fmt::format("node {} keeps shard ..{:x}/{}.{} that no record refers to", id,
                              name.data_txid.lo & 0xffffff, name.segment, name.index);
        }
        return true;
      });
    } while (cursor != 0);
  }
  leaks_checked_ = true;
}

}  // namespace elastripe::sim
