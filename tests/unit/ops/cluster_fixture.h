// A cluster on virtual time for tests of flows that make and follow maps: real nodes and flows over
// the simulator's network, without its faults.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/proxy.h"
#include "tests/support/whole_object.h"

namespace elastripe {

// Stores a whole value, which lives as long as the flow.
inline Task<Result<objects::StoreOutcome>> store_value(OpsContext& ops,
                                                       objects::StoreRequest request,
                                                       std::string value, TimePoint deadline) {
  objects::WholeValue whole(Buffer::copy_of(value));
  request.value = &whole;
  co_return co_await objects::store_object(ops, request, deadline);
}

class ClusterFixture {
 public:
  explicit ClusterFixture(size_t nodes = 5, const std::string& scheme = "rs:2,1", uint64_t seed = 1,
                          sim::NodeMemory memory = {})
      : events_(seed),
        trace_(events_, /*on=*/false),
        network_(events_, trace_, seed, perfect(), static_cast<int>(nodes), memory),
        pools_({Pool{.prefix = "",
                     .scheme = coding::parse_scheme(scheme).value(),
                     .inline_max_bytes = 64,
                     .segment_bytes = 4096,
                     .log_rounds = LogRounds::kTwo},
                // Weaker than most: its records must survive what membership does all the same.
                Pool{.prefix = "weak:",
                     .scheme = coding::parse_scheme("rs:2,1").value(),
                     .inline_max_bytes = 64,
                     .segment_bytes = 4096},
                Pool{.prefix = "soft:",
                     .scheme = coding::parse_scheme("rs:2,1").value(),
                     .inline_max_bytes = 64,
                     .segment_bytes = 4096,
                     .degraded_writes = true},
                Pool{.prefix = "wide:",
                     .scheme = coding::parse_scheme("ers-2:2,1,3").value(),
                     .inline_max_bytes = 64,
                     .segment_bytes = 4096,
                     .write_state = WriteState::kWide},
                Pool{.prefix = "as-before:",
                     .scheme = coding::parse_scheme("ers-2:2,1,3").value(),
                     .inline_max_bytes = 64,
                     .segment_bytes = 4096,
                     .write_state = WriteState::kAsBefore},
                Pool{.prefix = "unlogged:",
                     .scheme = coding::parse_scheme(scheme).value(),
                     .inline_max_bytes = 64,
                     .segment_bytes = 4096,
                     .updates = UpdateMethod::kOff},
                Pool{.prefix = "once:",
                     .scheme = coding::parse_scheme(scheme).value(),
                     .inline_max_bytes = 64,
                     .segment_bytes = 4096,
                     .log_rounds = LogRounds::kOne},
                Pool{.prefix = "two:",
                     .scheme = coding::parse_scheme(scheme).value(),
                     .inline_max_bytes = 64,
                     .segment_bytes = 4096,
                     .log_copies = LogCopies::kTwo},
                baseline("fo:", scheme, UpdateMethod::kFo),
                baseline("pl:", scheme, UpdateMethod::kPl),
                baseline("plr:", scheme, UpdateMethod::kPlr),
                baseline("cord:", scheme, UpdateMethod::kCord),
                baseline("dpu:", scheme, UpdateMethod::kDpu),
                baseline("tsue:", scheme, UpdateMethod::kTsue),
                baseline("tsue2:", scheme, UpdateMethod::kTsue2),
                baseline("parix:", scheme, UpdateMethod::kParix),
                Pool{.prefix = "large:",
                     .scheme = coding::parse_scheme(scheme).value(),
                     .inline_max_bytes = 64,
                     .segment_bytes = 4 << 20},
                baseline("large-cord:", scheme, UpdateMethod::kCord, 1 << 20),
                baseline("large-dpu:", scheme, UpdateMethod::kDpu, 1 << 20),
                baseline("large-tsue:", scheme, UpdateMethod::kTsue, 1 << 20),
                baseline("large-tsue2:", scheme, UpdateMethod::kTsue2, 1 << 20),
                baseline("large-parix:", scheme, UpdateMethod::kParix, 1 << 20),
                Pool{.prefix = "inline:",
                     .scheme = coding::parse_scheme("rs:2,1").value(),
                     .inline_max_bytes = 64 << 10,
                     .segment_bytes = 4096}}) {
    for (const std::string& name : names(nodes)) {
      decider_settings.nodes.push_back({.name = name, .host = name, .port = 1, .domain = name});
    }
    decider_settings.partitions = kPartitions;
    for (size_t id = 0; id < nodes; ++id) network_.node(id).start();
    tick();
  }
  ~ClusterFixture() {
    for (auto& proxy : proxies_) {
      if (proxy.is_alive()) proxy.kill();
    }
    run_until([&] { return std::ranges::all_of(proxies_, &sim::SimProxy::is_quiet); });
  }

  sim::SimProxy& add_proxy() {
    proxies_.emplace_back(static_cast<int>(proxies_.size()), events_, network_,
                          100 + proxies_.size(), pools_, settings, proxy_memory);
    return proxies_.back();
  }
  sim::SimProxy& add_decider() {
    sim::SimProxy& proxy = add_proxy();
    proxy.start_decider(decider_settings);
    return proxy;
  }
  sim::SimNode& node(size_t id) { return network_.node(id); }
  sim::Network& network() { return network_; }
  EventQueue& events() { return events_; }

  // True if the condition came true within a minute of virtual time.
  template <class Condition>
  bool run_until(Condition condition, Duration limit = std::chrono::minutes(1)) {
    const TimePoint end = events_.now() + limit;
    while (!condition()) {
      if (events_.now() >= end || !events_.run_one()) return condition();
    }
    return true;
  }
  void run_for(Duration duration) {
    run_until([] { return false; }, duration);
  }
  // Serves, with every partition synced at all its homes.
  bool serves_whole(sim::SimProxy& proxy) {
    const decider::ClusterStatus status = proxy.decider()->status();
    return status.state == "serving" && status.partitions_synced == status.partitions &&
           proxy.map().current() != nullptr;
  }

  // Runs a flow to its end.
  template <class T>
  T run(Task<T> flow) {
    std::optional<T> result;
    Scope scope;
    scope.spawn(keep(std::move(flow), &result));
    run_until([&] { return result.has_value() && scope.live() == 0; });
    return std::move(result.value());
  }
  bool put(sim::SimProxy& proxy, const std::string& key, const std::string& value,
           uint32_t exptime = 0) {
    objects::StoreRequest request;
    request.key = key;
    request.exptime = exptime;
    const auto stored = run(store_value(proxy.ops(), request, value, deadline()));
    return stored.has_value() && *stored == objects::StoreStatus::kStored;
  }
  Result<objects::StoreOutcome> store(sim::SimProxy& proxy, objects::StoreVerb verb,
                                      const std::string& key, const std::string& value) {
    objects::StoreRequest request;
    request.verb = verb;
    request.key = key;
    return run(store_value(proxy.ops(), request, value, deadline()));
  }
  // The value, "<miss>", or the error.
  std::string get(sim::SimProxy& proxy, const std::string& key) {
    const auto read = run(get_whole(proxy.ops(), key, deadline()));
    if (!read) return to_string(read.error());
    if (!read->object) return "<miss>";
    return read->value();
  }
  std::vector<node::NodeId> homes_of(sim::SimProxy& proxy, const std::string& key) {
    const MapPtr map = proxy.map().current();
    return map->partitions[map->partition_of(key)].homes;
  }
  TimePoint deadline() const { return events_.now() + std::chrono::seconds(8); }
  // Items on all nodes, by the first byte of their keys.
  uint64_t shards() { return items('\x02'); }
  uint64_t records() { return items('\x01'); }

  static constexpr uint32_t kPartitions = 16;
  decider::DeciderSettings decider_settings;
  OpsSettings settings;
  sim::ProxyMemory proxy_memory;  // of proxies that are added later

 private:
  static Pool baseline(const std::string& prefix, const std::string& scheme, UpdateMethod method,
                       uint32_t segment_bytes = 4096) {
    return {.prefix = prefix,
            .scheme = coding::parse_scheme(scheme).value(),
            .inline_max_bytes = 64,
            .segment_bytes = segment_bytes,
            .updates = method};
  }
  static sim::NetworkProfile perfect() {
    sim::NetworkProfile profile;
    profile.drop = profile.drop_reply = profile.duplicate = profile.slow = profile.late = 0;
    return profile;
  }
  static std::vector<std::string> names(size_t count) {
    std::vector<std::string> result;
    for (size_t i = 0; i < count; ++i) result.push_back("node-" + std::to_string(i));
    return result;
  }
  template <class T>
  static Task<void> keep(Task<T> flow, std::optional<T>* result) {
    result->emplace(co_await std::move(flow));
  }
  uint64_t items(char tag) {
    uint64_t count = 0;
    for (size_t id = 0; id < network_.nodes(); ++id) {
      if (!node(id).is_up()) continue;
      node::ArenaStore& store = node(id).store();
      uint64_t cursor = 0;
      do {
        cursor = store.walk(cursor, [&](const node::ItemRef& item) {
          count += store.key(item).front() == tag;
          return true;
        });
      } while (cursor != 0);
    }
    return count;
  }
  void tick() {
    for (size_t id = 0; id < network_.nodes(); ++id) node(id).tick();
    events_.after(std::chrono::milliseconds(100), [this] { tick(); });
  }

  EventQueue events_;
  sim::Trace trace_;
  sim::Network network_;
  const PoolTable pools_;
  std::list<sim::SimProxy> proxies_;
};

// What the decider's newest map says of a node.
inline node::NodeState state_of(sim::SimProxy& proxy, size_t id) {
  return proxy.decider()->status().nodes[id].info.state;
}

}  // namespace elastripe
