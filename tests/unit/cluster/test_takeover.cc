#include <catch2/catch.hpp>

#include "proxy/cluster/takeover.h"
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

namespace {

// Deaths that were dealt with, one after the other, before the proxy dies too.
struct Takeover : Cluster {
  using Cluster::Cluster;

  // `map` is installed and synced on all that are up.
  void settle() {
    step();
    sync_all();
    step();
  }
  void has_map(NodeId id) {
    maps[id] = request.reports[id].verdict == Verdict::kAnswers && map.is_up(id)
                   ? std::make_shared<const ClusterMap>(map)
                   : nullptr;
  }
  Result<node::MapPtr> base(bool accept_loss = false) {
    maps.resize(request.reports.size());
    for (NodeId id = 0; id < maps.size(); ++id) has_map(id);
    return choose_base(request.reports, maps, accept_loss);
  }
  // As the next decider would make it.
  ClusterMap take_over() {
    const auto found = base();
    REQUIRE(found);
    REQUIRE(*found != nullptr);
    CHECK((*found)->epoch == map.epoch);
    request.maps = maps;
    const auto next = next_map(**found, settings, ring, request);
    REQUIRE(next);
    return *next;
  }
  void die(NodeId id, Verdict how) {
    kill(id);
    request.reports[id].verdict = how;
  }

  std::vector<node::MapPtr> maps;
};

size_t lost_partitions(const ClusterMap& map) {
  return static_cast<size_t>(std::ranges::count_if(map.partitions, &node::Partition::lost));
}

}  // namespace

TEST_CASE("deaths that everything was synced after are not held against the survivors") {
  SECTION("three nodes, two copies") {
    Takeover c(3, 1);
    for (const NodeId id : Homes{2, 1}) {
      c.kill(id);
      c.settle();
    }
    CHECK(lost_partitions(c.take_over()) == 0);
  }
  SECTION("five nodes, three copies, three deaths") {
    Takeover c(5, 2);
    for (const NodeId id : Homes{4, 0, 2}) {
      c.kill(id);
      c.settle();
    }
    CHECK(lost_partitions(c.take_over()) == 0);
  }
  SECTION("the proxy dies together with the last of them") {
    Takeover c(5, 2);
    for (const NodeId id : Homes{4, 0}) {
      c.kill(id);
      c.settle();
    }
    c.kill(2);
    CHECK(lost_partitions(c.take_over()) == 0);
  }
  SECTION("those that came back empty since") {
    Takeover c(3, 1);
    for (const NodeId id : Homes{2, 1}) {
      c.kill(id);
      c.settle();
    }
    c.restart(1);
    c.restart(2);
    CHECK(lost_partitions(c.take_over()) == 0);
  }
  SECTION("a node that is appended to the configuration while another is dead") {
    Takeover c(2, 1);
    c.kill(1);
    c.settle();
    node::NodeInfo more;
    more.name = more.domain = "node-2";
    c.settings.nodes.push_back(more);
    c.request.reports.push_back({Verdict::kAnswers, 500, 0, {}, {}});
    c.ring = Ring(Cluster::names(3), c.settings.partitions);
    CHECK(lost_partitions(c.take_over()) == 0);
  }
}

TEST_CASE("survivors of more than M deaths and of their decider wait for the operator") {
  Takeover c(4, 1);
  c.settle();
  for (const NodeId id : Homes{1, 2, 3}) c.kill(id);
  const auto found = c.base();
  REQUIRE(!found);
  CHECK(found.error().code == ErrorCode::kLost);
  CHECK(found.error().message ==
        "nodes node-1, node-2, node-3 are gone, and may have had a later map than epoch 3");
  // Nor is a process that came back empty a reason to give up what the others had.
  c.restart(2);
  CHECK(c.base().error().code == ErrorCode::kLost);

  const auto accepted = c.base(/*accept_loss=*/true);
  REQUIRE(accepted);
  CHECK(lost_partitions(**accepted) == c.settings.partitions);
}

TEST_CASE("a silent node that may have a later map in use is waited for") {
  Takeover c(4, 1);
  c.settle();
  for (const NodeId id : Homes{1, 2, 3}) c.silence(id);
  CHECK(c.base().error().code == ErrorCode::kUnavailable);
  // Whoever was left out before can not have one by itself.
  Takeover d(3, 1);
  for (const NodeId id : Homes{2, 1}) {
    d.die(id, Verdict::kRefuses);
    d.settle();
    d.die(id, Verdict::kSilent);
  }
  CHECK(lost_partitions(d.take_over()) == 0);
}

TEST_CASE("a node counts as silent until everything is synced without it") {
  Takeover c(5, 1);
  c.silence(4);
  c.step();
  CHECK(c.map.nodes[4].state == NodeState::kSuspect);
  c.silence(3);
  CHECK(next_map(c.map, c.settings, c.ring, c.request).error().code == ErrorCode::kUnavailable);
  c.sync_all();
  c.step();
  CHECK(c.map.nodes[4].state == NodeState::kAway);
  CHECK(c.map.nodes[3].state == NodeState::kSuspect);
  CHECK(lost_partitions(c.map) == 0);
  // By itself that asks for no map, and it is taken back as any other suspect.
  CHECK(!needs_map(c.map, c.settings, c.request));
  c.wake(4);
  c.request.reports[4].epoch = {};
  CHECK(needs_map(c.map, c.settings, c.request));
  c.sync_all();
  c.step();
  CHECK(c.map.nodes[4].state == NodeState::kUp);
}

TEST_CASE("a stray node of another cluster is none of ours") {
  Takeover c(4, 1);
  c.settle();
  CHECK(c.base());
  auto other = std::make_shared<ClusterMap>(c.map);
  other->cluster_id = 99;
  other->partitions.resize(3);
  c.maps[2] = other;
  const auto found = find_strays(c.settings, c.request.reports, c.maps);
  REQUIRE(found);
  CHECK(*found == Homes{2});

  // Its map says nothing about our partitions.
  c.request.maps = c.maps;
  c.request.reports[2].epoch.number = c.map.epoch.number + 7;
  CHECK(next_map(c.map, c.settings, c.ring, c.request));

  SECTION("which is which can not be told from as many of each") {
    other->partitions = c.map.partitions;
    c.maps[3] = other;
    const auto tie = find_strays(c.settings, c.request.reports, c.maps);
    REQUIRE(!tie);
    CHECK(tie.error().message ==
          "nodes belong to different clusters: node-0, node-1 and node-2, node-3");
  }
  SECTION("a map of other nodes is not that of this configuration, however many have it") {
    other->nodes[0].name = "elsewhere";
    c.maps[3] = c.maps[1] = other;
    CHECK(find_strays(c.settings, c.request.reports, c.maps).value() == Homes{1, 2, 3});
  }
}
