#include "tests/sim/scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <numeric>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "proxy/cluster/members.h"
#include "proxy/ops/objects/outcome.h"
#include "tests/sim/proxy.h"
#include "tests/support/whole_object.h"

namespace elastripe::sim {
namespace {

using namespace std::chrono_literals;

constexpr int kParities = 2;
constexpr size_t kHomes = kParities + 1;
constexpr size_t kShards = 7;  // of ers-2:4,2,5

// What frames are for: those after the purpose before, up to this opcode.
struct Purpose {
  const char* name;
  node::Opcode last;
};
constexpr std::array kPurposes = {
    Purpose{"HELLO", node::Opcode::kHello},
    Purpose{"HEARTBEAT", node::Opcode::kHeartbeat},
    Purpose{"INSTALL_MAP", node::Opcode::kInstallMap},
    Purpose{"NOTICES", node::Opcode::kNotices},
    Purpose{"RECORD_*, sync", node::Opcode::kRecordFetch},
    Purpose{"SHARD_*", node::Opcode::kShardUpdate},
    Purpose{"LOG_*", node::Opcode::kLogCancel},
};
static_assert(kPurposes.back().last == node::kOpcodes.back().opcode);

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

NetworkProfile perfect() {
  NetworkProfile profile;
  profile.drop = profile.drop_reply = profile.duplicate = profile.slow = profile.late = 0;
  return profile;
}

Task<void> store(OpsContext& ops, std::string key, std::string value, int& left) {
  objects::WholeValue whole(Buffer::copy_of(value));
  objects::StoreRequest request;
  request.key = key;
  request.value = &whole;
  const auto stored = co_await objects::store_object(ops, request, ops.clock.now() + 8s);
  if (stored && *stored == objects::StoreStatus::kStored) --left;
}

class LargeCluster {
 public:
  explicit LargeCluster(const ScaleOptions& options)
      : options_(options),
        events_(1),
        trace_(events_, /*on=*/false),
        network_(events_, trace_, 1, perfect(), options.nodes,
                 {.limit_bytes = 1u << 20, .reserve_bytes = 128u << 10, .log_units = 2}),
        pools_({Pool{.prefix = "",
                     .scheme = coding::parse_scheme("ers-2:4,2,5").value(),
                     .inline_max_bytes = 16u << 10,
                     .segment_bytes = 4u << 20}}) {
    settings_.partitions = options.partitions;
    for (int i = 0; i < options.nodes; ++i) {
      const std::string name = "n" + std::to_string(i);
      settings_.nodes.push_back({.name = name, .host = name, .port = 1, .domain = name});
      network_.node(static_cast<size_t>(i)).start();
    }
    tick();
  }
  ~LargeCluster() {
    for (auto& proxy : proxies_) {
      if (proxy.is_alive()) proxy.kill();
    }
    stores_.close();
    run_until([&] { return std::ranges::all_of(proxies_, &SimProxy::is_quiet); }, 60s);
  }
  LargeCluster(const LargeCluster&) = delete;

  bool run() {
    fmt::print("{} proxies, {} nodes, {} partitions, {} records; heartbeats every {} ms\n\n",
               options_.proxies, options_.nodes, options_.partitions, options_.records,
               settings_.heartbeat / 1ms);
    fmt::print("frames and KiB a second:\n{:40} {:>7} {:>16}", "", "seconds", "all");
    for (const Purpose& purpose : kPurposes) fmt::print(" {:>16}", purpose.name);
    fmt::print("\n");
    add_proxy();
    bool ok = phase("the first proxy forms the cluster", [&] { return serves(proxies_[0]); });
    while (static_cast<int>(proxies_.size()) < options_.proxies) add_proxy();
    ok = ok && phase("all others follow", [&] { return all_serve(0); });
    ok = ok && rest("nothing happens", 10s);
    ok = ok && store_records();
    ok = ok && after_death("a node is killed", [&] { network_.node(7).kill(/*silent=*/false); });
    ok = ok && after_death("a machine vanishes", [&] { network_.node(8).kill(/*silent=*/true); });
    ok = ok && after_death("the decider is killed", [&] { proxies_[0].kill(); });
    ok = ok && rest("nothing happens yet", 10s);
    return ok;
  }

 private:
  void tick() {
    for (size_t id = 0; id < network_.nodes(); ++id) network_.node(id).tick();
    events_.after(100ms, [this] { tick(); });
  }
  void add_proxy() {
    proxies_.emplace_back(static_cast<int>(proxies_.size()), events_, network_,
                          1000 + proxies_.size(), pools_, OpsSettings{});
    proxies_.back().follow_by(settings_, /*may_decide=*/true);
    proxies_.back().correspond(settings_.heartbeat);
  }
  static bool serves(SimProxy& proxy) { return proxy.map().current() != nullptr; }
  // All that live, a map after that one, the same.
  bool all_serve(uint32_t after) {
    uint32_t number = 0;
    for (SimProxy& proxy : proxies_) {
      if (!proxy.is_alive()) continue;
      const node::MapPtr map = proxy.map().current();
      if (map == nullptr || map->epoch.number <= after) return false;
      if (number != 0 && map->epoch.number != number) return false;
      number = map->epoch.number;
    }
    return true;
  }
  uint32_t epoch() const {
    uint32_t newest = 0;
    for (const SimProxy& proxy : proxies_) {
      if (const node::MapPtr map = proxy.shown_map().current()) {
        newest = std::max(newest, map->epoch.number);
      }
    }
    return newest;
  }
  bool is_synced() {
    return std::ranges::any_of(proxies_, [](SimProxy& proxy) {
      if (!proxy.is_alive() || proxy.decider() == nullptr || proxy.decider_has_ended())
        return false;
      const decider::ClusterStatus status = proxy.decider()->status();
      return status.state == "serving" && status.partitions_synced == status.partitions;
    });
  }

  template <class Condition>
  bool run_until(Condition condition, Duration limit) {
    const TimePoint end = events_.now() + limit;
    // Conditions look at all proxies: not after each event.
    TimePoint look = events_.now();
    for (;;) {
      if (events_.now() >= look) {
        if (condition()) return true;
        look = events_.now() + 1ms;
      }
      if (events_.now() >= end || !events_.run_one()) return condition();
    }
  }
  template <class Condition>
  bool phase(const std::string& what, Condition condition) {
    const TimePoint began = events_.now();
    const Network::TrafficByOpcode before = network_.traffic();
    const bool done = run_until(condition, 120s);
    show(what, events_.now() - began, before);
    if (!done) fmt::print("it did not come to its end\n");
    return done;
  }
  // A follower hears from all nodes in nodes / 4 heartbeats. Until then it asks each one twice, as
  // that has another map by now.
  bool rest(const std::string& what, Duration time) {
    const TimePoint end = events_.now() + time;
    return phase(what, [&, this] { return events_.now() >= end; });
  }
  template <class Death>
  bool after_death(const std::string& what, Death death) {
    const uint32_t before = epoch();
    death();
    return phase(what + ": a new map at all", [&, this] { return all_serve(before); }) &&
           phase("  its partitions are synced", [&, this] { return is_synced(); });
  }
  bool store_records() {
    const std::string value(1000, 'x');
    int left = options_.records;
    int next = 0;
    // Some at a time, by each in turn.
    while (next < options_.records) {
      const int until = std::min(options_.records, next + 200);
      const int goal = options_.records - until;
      for (; next < until; ++next) {
        SimProxy& proxy = proxies_[static_cast<size_t>(next) % proxies_.size()];
        stores_.spawn(store(proxy.ops(), fmt::format("key{}", next), value, left));
      }
      if (!run_until([&] { return left <= goal; }, 30s)) {
        fmt::print("not all records were stored\n");
        return false;
      }
    }
    return true;
  }

  void show(const std::string& what, Duration took, const Network::TrafficByOpcode& before) const {
    Network::Traffic all;
    std::array<Network::Traffic, kPurposes.size()> by_purpose;
    for (size_t i = 0; i < before.size(); ++i) {
      const node::Opcode opcode = node::kOpcodes[i].opcode;
      const auto purpose =
          std::ranges::find_if(kPurposes, [&](const Purpose& some) { return opcode <= some.last; });
      Network::Traffic& of = by_purpose[static_cast<size_t>(purpose - kPurposes.begin())];
      for (Network::Traffic* sum : {&all, &of}) {
        sum->frames += network_.traffic()[i].frames - before[i].frames;
        sum->bytes += network_.traffic()[i].bytes - before[i].bytes;
      }
    }
    const double time = std::max(seconds(took), 0.001);
    const auto print = [&](const Network::Traffic& traffic) {
      fmt::print(" {:8.0f} {:7.0f}", static_cast<double>(traffic.frames) / time,
                 static_cast<double>(traffic.bytes) / 1024 / time);
    };
    fmt::print("{:40} {:7.2f}", what, seconds(took));
    print(all);
    for (const Network::Traffic& traffic : by_purpose) print(traffic);
    fmt::print("\n");
    std::fflush(stdout);  // the next may take minutes
  }

  const ScaleOptions options_;
  EventQueue events_;
  Trace trace_;
  Network network_;
  PoolTable pools_;
  decider::DeciderSettings settings_;
  std::deque<SimProxy> proxies_;
  Scope stores_;
};

std::vector<node::NodeInfo> equal_nodes(size_t count) {
  std::vector<node::NodeInfo> nodes(count);
  for (size_t i = 0; i < count; ++i) {
    nodes[i].id = static_cast<node::NodeId>(i);
    nodes[i].name = nodes[i].domain = "n" + std::to_string(i);
  }
  return nodes;
}

// What the ring gives each node of the first places of all partitions.
std::vector<double> loads(const Ring& ring, size_t nodes, size_t places) {
  std::vector<double> loads(nodes);
  for (size_t p = 0; p < ring.partitions(); ++p) {
    for (const node::NodeId id : ring.order(p) | std::views::take(places)) loads[id] += 1;
  }
  return loads;
}

void show_load(const std::vector<double>& loads) {
  const auto nodes = static_cast<double>(loads.size());
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / nodes;
  double squares = 0;
  for (const double one : loads) squares += (one - mean) * (one - mean);
  fmt::print(" {:>12.1f}% {:>10.1f}%", 100 * std::sqrt(squares / nodes) / mean,
             100 * (std::ranges::max(loads) / mean - 1));
}

// How many homes move as a node is added, of what it gets if all get as much.
double moves_of_a_node(const Ring& before, const Ring& after, double nodes) {
  size_t moved = 0;
  for (size_t p = 0; p < before.partitions(); ++p) {
    std::set<node::NodeId> had;
    for (const node::NodeId id : before.order(p) | std::views::take(kHomes)) had.insert(id);
    for (const node::NodeId id : after.order(p) | std::views::take(kHomes)) {
      moved += !had.contains(id);
    }
  }
  const auto homes = static_cast<double>(before.partitions() * kHomes);
  return static_cast<double>(moved) / (homes / (nodes + 1));
}

// How evenly rings spread records (M + 1 homes of each partition) and shards, and what that costs
// when a node is added: the one that a cluster uses, and the one that it is made from.
void show_balance(size_t nodes) {
  fmt::print("\n{:>18} {:>25} {:>25} {:>10}\n{:>10} {:>7} {:>13} {:>11} {:>13} {:>11} {:>10}\n", "",
             "records", "shards", "a new node", "partitions", "ring", "deviation", "fullest",
             "deviation", "fullest", "moves");
  for (const uint32_t partitions : {1024u, 4096u, 16384u, 65536u}) {
    const Members members(equal_nodes(nodes), partitions);
    const Members grown(equal_nodes(nodes + 1), partitions);
    for (const bool is_even : {false, true}) {
      const Ring& ring = is_even ? members.even : members.hashed;
      fmt::print("{:>10} {:>7}", partitions, is_even ? "even" : "hashed");
      for (const size_t places : {kHomes, kShards}) show_load(loads(ring, nodes, places));
      const double moves =
          moves_of_a_node(ring, is_even ? grown.even : grown.hashed, static_cast<double>(nodes));
      fmt::print(" {:>9.2f}x\n", moves);
    }
  }
}

}  // namespace

int simulate_scale(const ScaleOptions& options) {
  const bool ok = LargeCluster(options).run();
  show_balance(static_cast<size_t>(options.nodes));
  return ok ? 0 : 1;
}

}  // namespace elastripe::sim
