#include <catch2/catch.hpp>

#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/records/commit.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::records;
using namespace elastripe::objects;
using namespace elastripe::decider;
using namespace std::chrono_literals;
using node::NodeState;

TEST_CASE("a stalled node is suspect only after its lease, and returns as itself") {
  ClusterFixture cluster;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(cluster.put(proxy, "key", "before"));
  const uint64_t incarnation = proxy.decider()->status().nodes[2].info.incarnation;
  const TimePoint stalled = cluster.events().now();
  cluster.node(2).stall();
  REQUIRE(cluster.run_until([&] { return state_of(proxy, 2) == NodeState::kSuspect; }, 10s));
  CHECK(cluster.events().now() - stalled >= cluster.decider_settings.lease - 200ms);
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
  REQUIRE(cluster.put(proxy, "key", "after"));
  cluster.node(2).resume();
  REQUIRE(cluster.run_until([&] { return state_of(proxy, 2) == NodeState::kUp; }, 10s));
  CHECK(proxy.decider()->status().nodes[2].info.incarnation == incarnation);
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
  CHECK(cluster.get(proxy, "key") == "after");
}

namespace {

// One decider puts a map into use while another one, which has learned of that map from one node
// when the others did not have it yet, makes the next.
struct Rivals : ClusterFixture {
  // Which was a home of the key once, and died; or was in the map before.
  void start_race(bool told_returns = false) {
    first = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*first); }));
    homes = homes_of(*first, "key");
    // The partition moves away from both homes, one after the other, and comes back to both at
    // once.
    for (const auto home : homes) {
      node(home).kill(/*silent=*/false);
      REQUIRE(run_until([&] { return state_of(*first, home) == NodeState::kLost; }, 5s));
      REQUIRE(run_until([&] { return serves_whole(*first); }, 10s));
    }
    REQUIRE(put(*first, "key", "old"));
    const auto returns = [&](NodeId id) { return std::ranges::find(homes, id) != homes.end(); };
    while (returns(told) != told_returns) ++told;
    const TimePoint meeting = events().now() + decider_settings.suspect_after;
    network().set_delay_rule(
        [=, this](int proxy, node::NodeId to, const node::RequestHeader& header) {
          const bool installs = header.opcode == node::Opcode::kInstallMap;
          const Duration until_meeting = meeting - events().now();
          std::optional<Duration> delay;
          if (header.opcode == node::Opcode::kHello && until_meeting > 0s) delay = until_meeting;
          if (installs && proxy == 0 && to != told) delay = 120ms;
          if (installs && proxy != 0) delay = to == told ? 400ms : 401ms;
          return delay;
        });
    for (const auto home : homes) node(home).start();
    const uint32_t number = first->decider()->status().epoch.number;
    REQUIRE(run_until([&] { return first->decider()->status().epoch.number > number; }, 5s));
    CHECK(std::ranges::all_of(homes,
                              [&](auto id) { return state_of(*first, id) == NodeState::kUp; }));
  }
  bool is_back() { return first->map().current() != nullptr && homes_of(*first, "key") == homes; }

  sim::SimProxy* first = nullptr;
  std::vector<node::NodeId> homes;
  node::NodeId told = 0;  // has the first one's map at once
};

}  // namespace

TEST_CASE("a map that is coming into use is not taken for one that never was") {
  Rivals cluster;
  // If none of the nodes of the map before has it yet, that one is what the second builds upon.
  cluster.start_race(/*told_returns=*/GENERATE(false, true));
  cluster.run_for(10ms);
  auto& second = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.is_back(); }, 300ms));
  REQUIRE(cluster.put(*cluster.first, "key", "new"));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }, 20s));
  CHECK(cluster.get(second, "key") == "new");
}

TEST_CASE("a decider keeps the copies of records that pools wanted when its proxy began") {
  ClusterFixture cluster(5, "rs:2,1");
  cluster.decider_settings.max_parities = 2;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  CHECK(proxy.map().current()->max_parities == 2);
}

// A refused connection proves nothing there, whatever the file of the one that starts says.
TEST_CASE("a decider that starts goes by the rules of the cluster, and not of its file") {
  ClusterFixture cluster(5, "rs:2,1");
  cluster.decider_settings.refused_is_dead = false;
  auto& first = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  REQUIRE(cluster.put(first, "key", "value"));
  first.kill();
  cluster.run_for(10s);  // no node has a lease
  cluster.node(0).kill(/*silent=*/false);
  cluster.decider_settings.refused_is_dead = true;
  auto& second = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return second.map().current() != nullptr; }));
  CHECK(state_of(second, 0) == NodeState::kSuspect);
  CHECK(cluster.get(second, "key") == "value");
}

TEST_CASE("the cluster uses what all nodes and all proxies have, and no more") {
  ClusterFixture cluster;
  const node::CapabilitySet all = node::own_capabilities().without(node::peer_capabilities());
  const auto restart = [&](node::NodeId id, node::CapabilitySet build) {
    cluster.node(id).kill(/*silent=*/false);
    cluster.run_for(2s);
    cluster.node(id).install_build(build);
    cluster.node(id).start();
  };
  restart(0, {});
  auto& proxy = cluster.add_decider();
  const auto used = [&] { return proxy.decider()->status().capabilities; };
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  CHECK(used() == node::CapabilitySet());
  node::CapabilitySet others;
  proxy.decider()->know_proxies([&] { return others; });
  restart(0, node::own_capabilities());
  REQUIRE(cluster.run_until(
      [&] { return state_of(proxy, 0) == NodeState::kUp && cluster.serves_whole(proxy); }, 20s));
  CHECK(used() == node::CapabilitySet());
  others = node::own_capabilities();
  REQUIRE(cluster.run_until([&] { return used() == all; }, 5s));
  others = {};
  cluster.run_for(1s);
  CHECK(used() == all);
}

// Each has to wait for the leases that the silent node may have.
TEST_CASE("two deciders that start together beside a silent node come to an end") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    ClusterFixture cluster(5, "rs:2,1", seed);
    auto& first = cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
    REQUIRE(cluster.put(first, "key", "value"));
    cluster.node(4).kill(/*silent=*/true);
    first.kill();
    auto& left = cluster.add_decider();
    auto& right = cluster.add_decider();
    const auto serves = [&](sim::SimProxy& proxy) { return proxy.map().current() != nullptr; };
    REQUIRE(cluster.run_until([&] { return serves(left) || serves(right); }));
    CHECK(cluster.get(serves(left) ? left : right, "key") == "value");
  }
}

TEST_CASE("an older map on a node that was left out deposes no decider") {
  ClusterFixture cluster;
  auto& first = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  cluster.node(0).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return state_of(first, 0) == NodeState::kLost; }, 5s));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }, 10s));
  // The first decider's next map reaches node 4 alone, and that after the second has met it.
  cluster.network().set_delay_rule(
      [](int proxy, node::NodeId to, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode != node::Opcode::kInstallMap) return std::nullopt;
        if (proxy == 0) return to == 4 ? Duration(300ms) : Duration(1000s);
        return to == 4 ? std::optional(Duration(1000s)) : std::nullopt;
      });
  const uint32_t number = first.decider()->status().epoch.number;
  cluster.node(0).start();
  REQUIRE(cluster.run_until([&] { return first.decider()->status().epoch.number > number; }, 5s));
  auto& second = cluster.add_decider();
  REQUIRE(
      cluster.run_until([&] { return second.decider()->status().epoch.number > number; }, 250ms));
  cluster.network().cut(1, 4);
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }, 60s));
  first.kill();
  cluster.network().set_delay_rule(nullptr);
  cluster.network().mend(1, 4);
  REQUIRE(cluster.run_until([&] { return state_of(second, 4) == NodeState::kUp; }, 20s));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }, 20s));
}

TEST_CASE("a node that has told nothing yet is not taken for a full one") {
  ClusterFixture cluster;
  auto& first = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  cluster.node(3).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return state_of(first, 3) == NodeState::kLost; }, 5s));
  // Its first greeting is refused.
  auto& second = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }, 20s));
  CHECK(second.map().rooms()->free_bytes(3) == UINT64_MAX);

  cluster.node(3).start();
  // To the very event with which it is served, before the decider's next turn.
  REQUIRE(cluster.run_until(
      [&] {
        const MapPtr map = second.map().current();
        return map != nullptr && map->is_up(3);
      },
      10s));
  CHECK(second.map().rooms()->free_bytes(3) > 0);
  for (int i = 0; i < 20; ++i) CHECK(cluster.put(second, "key" + std::to_string(i), "value"));
}

TEST_CASE("two deciders that start at once end with one that serves") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    ClusterFixture cluster(5, "rs:2,1", seed);
    auto& first = cluster.add_decider();
    auto& second = cluster.add_decider();
    REQUIRE(cluster.run_until(
        [&] { return first.decider_has_ended() != second.decider_has_ended(); }, 30s));
    auto& winner = first.decider_has_ended() ? second : first;
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(winner); }, 30s));
  }
}

namespace {

// Small nodes, and records that fill them.
struct FullCluster : ClusterFixture {
  FullCluster()
      : ClusterFixture(5, "rs:2,1", 1, {.limit_bytes = 256 << 10, .reserve_bytes = 48 << 10}) {
    decider = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*decider); }));
  }

  bool set(const std::string& key, size_t bytes) {
    Commit set;
    set.key = key;
    set.content.kind = node::RecordKind::kInline;
    set.content.value = std::string(bytes, 'v');
    set.content.size = bytes;
    const auto result = run(commit_record(decider->ops(), set, deadline()));
    return result.has_value() && result->status == CommitStatus::kCommitted;
  }
  bool remove(const std::string& key) {
    const auto removed = run(remove_object(decider->ops(), key, deadline()));
    return removed.has_value() && *removed;
  }
  // Stores keys, and returns those which every home had room for.
  std::vector<std::string> fill() {
    std::vector<std::string> keys;
    for (int i = 0; i < 400; ++i) {
      const std::string key = "key" + std::to_string(i);
      if (set(key, 6000)) keys.push_back(key);
    }
    return keys;
  }
  uint32_t partitions_short() { return decider->decider()->status().partitions_short; }
  // What a death leads to has happened.
  bool is_settled_without(size_t id) {
    return state_of(*decider, id) == NodeState::kLost && serves_whole(*decider);
  }

  sim::SimProxy* decider = nullptr;
};

}  // namespace

TEST_CASE("when a node dies and all others are full, every key can be read and deleted") {
  FullCluster cluster;
  sim::SimProxy& proxy = *cluster.decider;
  const auto keys = cluster.fill();
  REQUIRE(keys.size() > 50);
  cluster.node(1).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return state_of(proxy, 1) == NodeState::kLost; }, 2s));
  // Whoever asks before it is known who has no room waits until it is.
  for (const std::string& key : keys) REQUIRE(cluster.get(proxy, key) == std::string(6000, 'v'));
  REQUIRE(cluster.run_until([&] { return cluster.is_settled_without(1); }, 10s));
  CHECK(cluster.partitions_short() > 0);
  CHECK(proxy.decider()->status().partitions_lost == 0);
  const auto status = proxy.decider()->status();
  CHECK(std::ranges::count(status.nodes, false, &NodeStatus::has_room) > 0);

  // Trials of nodes with a little room change nothing.
  cluster.run_for(2min);
  CHECK(cluster.partitions_short() > 0);
  CHECK(!cluster.set("new", 6000));
  for (const std::string& key : keys) REQUIRE(cluster.get(proxy, key) == std::string(6000, 'v'));
  for (const std::string& key : keys) REQUIRE(cluster.remove(key));
  for (const std::string& key : keys) CHECK(cluster.get(proxy, key) == "<miss>");

  // The room that deletes have made is found, and the partitions get their homes.
  REQUIRE(cluster.run_until([&] { return cluster.partitions_short() == 0; }, 2min));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
  for (const auto& partition : proxy.map().current()->partitions) {
    CHECK(partition.homes.size() == 2);
  }
  CHECK(cluster.set("new", 6000));
}

TEST_CASE("a node that returns empty is a home of what the full ones had no room for") {
  FullCluster cluster;
  sim::SimProxy& proxy = *cluster.decider;
  const auto keys = cluster.fill();
  cluster.node(1).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return cluster.is_settled_without(1); }, 10s));
  REQUIRE(cluster.partitions_short() > 0);
  cluster.node(1).start();
  REQUIRE(cluster.run_until([&] { return state_of(proxy, 1) == NodeState::kUp; }, 5s));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
  CHECK(cluster.partitions_short() == 0);
  for (const std::string& key : keys) CHECK(cluster.get(proxy, key) == std::string(6000, 'v'));
}

TEST_CASE("a proxy that takes over a full cluster learns who has no room") {
  FullCluster cluster;
  const auto keys = cluster.fill();
  cluster.node(1).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return cluster.is_settled_without(1); }, 10s));
  cluster.decider->kill();
  cluster.decider = &cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.is_settled_without(1); }, 20s));
  CHECK(cluster.partitions_short() > 0);
  for (const std::string& key : keys) {
    CHECK(cluster.get(*cluster.decider, key) == std::string(6000, 'v'));
  }
}
