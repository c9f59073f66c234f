// Deciders that start among survivors, and what the operator says of the others.
#include <catch2/catch.hpp>

#include "proxy/ops/outcome.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace std::chrono_literals;
using node::NodeState;

namespace {

// Two copies of every record on three nodes, of which two die, one after the other.
struct TwoDeaths : ClusterFixture {
  TwoDeaths() : ClusterFixture(3, "rep:2") {
    first = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*first); }));
    for (int i = 0; i < kKeys; ++i) REQUIRE(put(*first, key(i), "value"));
  }
  static std::string key(int i) { return "key" + std::to_string(i); }
  void die(size_t id, NodeState state) {
    node(id).kill(/*silent=*/state != NodeState::kLost);
    REQUIRE(run_until([&] { return state_of(*first, id) == state; }, 10s));
    REQUIRE(run_until([&] { return serves_whole(*first); }, 10s));
  }
  sim::SimProxy& next_decider() {
    first->kill();
    return add_decider();
  }
  int readable(sim::SimProxy& proxy) {
    int count = 0;
    for (int i = 0; i < kKeys; ++i) count += get(proxy, key(i)) == "value";
    return count;
  }

  static constexpr int kKeys = 20;
  sim::SimProxy* first = nullptr;
};

}  // namespace

TEST_CASE("deaths that were synced away cost the next decider nothing") {
  TwoDeaths cluster;
  cluster.die(2, NodeState::kLost);
  cluster.die(1, NodeState::kLost);
  auto& next = cluster.next_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(next); }, 20s));
  CHECK(next.decider()->status().partitions_lost == 0);
  CHECK(cluster.readable(next) == TwoDeaths::kKeys);
}

TEST_CASE("machines that vanish one by one are declared dead, and nothing is lost") {
  TwoDeaths cluster;
  cluster.die(2, NodeState::kSuspect);
  Decider& decider = *cluster.first->decider();
  CHECK(decider.declare_dead("nobody").error().code == ErrorCode::kNotFound);
  CHECK(decider.declare_dead("node-1").error().code == ErrorCode::kConflict);
  cluster.node(1).kill(/*silent=*/true);
  REQUIRE(cluster.run_until([&] { return decider.status().state == "waiting"; }, 20s));
  REQUIRE(decider.declare_dead("node-2"));
  REQUIRE(decider.declare_dead("node-1"));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(*cluster.first); }, 20s));
  CHECK(state_of(*cluster.first, 1) == NodeState::kLost);
  CHECK(decider.status().partitions_lost == 0);
  CHECK(cluster.readable(*cluster.first) == TwoDeaths::kKeys);

  SECTION("a process that returns to such an address is taken in") {
    cluster.node(1).start();
    REQUIRE(cluster.run_until([&] { return state_of(*cluster.first, 1) == NodeState::kUp; }, 20s));
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(*cluster.first); }, 20s));
    CHECK(cluster.readable(*cluster.first) == TwoDeaths::kKeys);
  }
  SECTION("the next decider is told again, or vouched for") {
    auto& waiting = cluster.next_decider();
    cluster.run_for(20s);
    CHECK(waiting.map().current() == nullptr);
    CHECK(!waiting.decider()->status().can_accept_loss);
    REQUIRE(waiting.decider()->declare_dead("node-1"));
    REQUIRE(waiting.decider()->declare_dead("node-2"));
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(waiting); }, 20s));
    CHECK(cluster.readable(waiting) == TwoDeaths::kKeys);
  }
  SECTION("force_epoch vouches for all that are silent") {
    cluster.decider_settings.force_epoch = true;
    auto& forced = cluster.next_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(forced); }, 20s));
    CHECK(cluster.readable(forced) == TwoDeaths::kKeys);
  }
}

TEST_CASE("force_epoch takes over from machines that died unsynced, too") {
  ClusterFixture cluster(3, "rep:2");
  auto& first = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  REQUIRE(cluster.put(first, "key", "value"));
  const auto homes = cluster.homes_of(first, "key");
  first.kill();
  // One of two copies, and the node that has none: a majority is silent.
  for (size_t id = 0; id < 3; ++id) {
    if (id != homes[0]) cluster.node(id).kill(/*silent=*/true);
  }
  cluster.decider_settings.force_epoch = true;
  auto& second = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return second.decider()->status().can_accept_loss; }, 20s));
  CHECK(second.decider()->status().reason.find("may have had a later map") != std::string::npos);
  CHECK(cluster.records() > 0);
  // More than M are gone with the decider, so the operator has the last word.
  REQUIRE(second.decider()->accept_loss());
  REQUIRE(cluster.run_until([&] { return second.decider()->status().state == "serving"; }, 20s));
  CHECK(cluster.get(second, "key").starts_with("lost"));
}

TEST_CASE("what a takeover can not vouch for is kept until the others are back") {
  ClusterFixture cluster(3, "rep:2");
  auto& first = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  for (int i = 0; i < 20; ++i) REQUIRE(cluster.put(first, TwoDeaths::key(i), "value"));
  first.kill();
  cluster.node(1).stall();
  cluster.node(2).stall();
  cluster.decider_settings.force_epoch = true;
  auto& second = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return second.decider()->status().can_accept_loss; }, 20s));
  cluster.node(1).resume();
  cluster.node(2).resume();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }, 20s));
  for (int i = 0; i < 20; ++i) CHECK(cluster.get(second, TwoDeaths::key(i)) == "value");
}

TEST_CASE("where firewalls refuse connections, only a new process proves a death") {
  ClusterFixture cluster(4, "rep:2");
  cluster.decider_settings.refused_is_dead = false;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(cluster.put(proxy, "key", "value"));
  cluster.node(1).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return state_of(proxy, 1) == NodeState::kSuspect; }, 10s));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
  cluster.node(1).start();
  REQUIRE(cluster.run_until([&] { return state_of(proxy, 1) == NodeState::kUp; }, 10s));
  CHECK(cluster.get(proxy, "key") == "value");
}
