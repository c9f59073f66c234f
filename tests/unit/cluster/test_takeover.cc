#include "proxy/cluster/takeover.h"

#include <catch2/catch.hpp>

#include "tests/unit/cluster/membership_fixture.h"

using namespace elastripe;
using node::ClusterMap;
using node::NodeId;
using node::NodeState;

TEST_CASE("a starting decider builds upon the map that may be in use") {
  Cluster c(5, 2);
  std::vector<node::MapPtr> maps(5);
  const auto older = std::make_shared<const ClusterMap>(c.map);
  std::ranges::fill(maps, older);
  CHECK(choose_base(c.request.reports, maps).value()->epoch == older->epoch);

  c.silence(4);
  const auto newer =
      std::make_shared<const ClusterMap>(next_map(c.map, c.settings, c.ring, c.request).value());
  const auto install = [&](NodeId id) {
    maps[id] = newer;
    c.request.reports[id].epoch = newer->epoch;
  };
  SECTION("all members have the newer one; an excluded node with the older one says nothing") {
    for (const NodeId id : Homes{0, 1, 2, 3}) install(id);
    c.wake(4);
    CHECK(choose_base(c.request.reports, maps).value()->epoch == newer->epoch);
  }
  SECTION("only some have it: it was never served, and knows the older one") {
    install(0);
    CHECK(choose_base(c.request.reports, maps).value()->epoch == newer->epoch);
  }
  SECTION("no node has a map") {
    std::ranges::fill(maps, nullptr);
    CHECK(choose_base(c.request.reports, maps).value() == nullptr);
  }
  SECTION("nodes of two clusters") {
    auto other = std::make_shared<ClusterMap>(*older);
    other->cluster_id = 43;
    maps[2] = other;
    CHECK(!choose_base(c.request.reports, maps));
  }
  SECTION("two maps of which either may be in use") {
    // Made from the older one by two deciders that saw different nodes; a common member is silent.
    auto left = std::make_shared<ClusterMap>(*newer);
    auto right = std::make_shared<ClusterMap>(*newer);
    right->epoch.decider = 8;
    left->nodes[3].state = left->nodes[4].state = NodeState::kSuspect;
    right->nodes[0].state = right->nodes[1].state = NodeState::kSuspect;
    right->nodes[4].state = NodeState::kUp;
    node::seal(*left);
    node::seal(*right);
    c.wake(4);
    c.silence(2);
    for (const NodeId id : Homes{0, 1}) {
      maps[id] = left;
      c.request.reports[id].epoch = left->epoch;
    }
    for (const NodeId id : Homes{3, 4}) {
      maps[id] = right;
      c.request.reports[id].epoch = right->epoch;
    }
    CHECK(!choose_base(c.request.reports, maps));
  }
}

