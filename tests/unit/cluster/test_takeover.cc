#include <catch2/catch.hpp>

#include "proxy/cluster/takeover.h"
#include "server-patches/node/format/record.h"
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
  SECTION("two maps of one number, of which one can not have been served") {
    // Node 0 was cut off, with a decider that has it install a map for all but node 1; then for the
    // others another decider left out both, and node 1 has got none.
    auto cut_off = std::make_shared<ClusterMap>(*newer);
    auto served = std::make_shared<ClusterMap>(*newer);
    served->epoch.decider = 8;
    cut_off->nodes[1].state = NodeState::kSuspect;
    cut_off->nodes[4].state = NodeState::kUp;
    served->nodes[0].state = served->nodes[1].state = NodeState::kSuspect;
    served->nodes[4].state = NodeState::kUp;
    node::seal(*cut_off);
    node::seal(*served);
    c.wake(4);
    maps = {cut_off, older, served, served, served};
    for (NodeId id = 0; id < maps.size(); ++id) c.request.reports[id].epoch = maps[id]->epoch;
    CHECK(choose_base(c.request.reports, maps).value() == served);
    c.silence(1);
    CHECK(choose_base(c.request.reports, maps).value() == served);
  }
}

namespace {

// A cluster whose decider dies too.
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
    return choose_base(request.reports, maps, /*own=*/nullptr, accept_loss);
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

}  // namespace

TEST_CASE("who takes over keeps what was flushed, and what is to be") {
  Takeover c(3, 1);
  c.request.flush = {.now = true, .at = 1'900'000'000};
  c.settle();
  c.request.flush = {};
  const ClusterMap next = c.take_over();
  CHECK(next.flush_floor == c.map.flush_floor);
  CHECK(next.flush_floor > 0);
  CHECK(next.flush_at == 1'900'000'000);
}

TEST_CASE("what is flushed ends with a block of versions, which updates of one value share") {
  Takeover c(3, 1);
  c.settle();
  c.request.flush.now = true;
  const uint64_t last = c.map.version_floor + (uint64_t{1} << (node::kCounterBits - 1)) + 1;
  for (NodeReport& report : c.request.reports) report.max_version = last;
  c.step();
  CHECK(c.map.flush_floor > last);
  CHECK(c.map.flush_floor % node::next_block(0) == 0);
}

TEST_CASE("a loss that is accepted brings back nothing that was flushed") {
  Takeover c(3, 1);
  c.request.flush.now = true;
  c.settle();
  c.request.flush = {};
  const uint64_t floor = c.map.flush_floor;
  c.die(0, Verdict::kRefuses);
  c.die(1, Verdict::kRefuses);
  c.request.accept_loss = true;
  const auto found = c.base(/*accept_loss=*/true);
  REQUIRE(found);
  const auto next = next_map(**found, c.settings, c.ring, c.request);
  REQUIRE(next);
  CHECK(next->flush_floor == floor);
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
    CHECK(tie.error().code == ErrorCode::kInvalid);
    CHECK(tie.error().message ==
          "nodes belong to different clusters: node-0, node-1 and node-2, node-3");
  }
  SECTION("who has served one of the clusters knows which it is, however many belong to others") {
    other->partitions = c.map.partitions;
    c.maps[3] = c.maps[1] = other;
    const auto own = std::make_shared<const ClusterMap>(c.map);
    CHECK(find_strays(c.settings, c.request.reports, c.maps).value() == Homes{0});
    CHECK(find_strays(c.settings, c.request.reports, c.maps, own).value() == Homes{1, 2, 3});
    c.maps[1] = own;
    CHECK(find_strays(c.settings, c.request.reports, c.maps, own).value() == Homes{2, 3});
    // Nobody is left of it.
    c.maps[0] = c.maps[1] = other;
    CHECK(find_strays(c.settings, c.request.reports, c.maps, own).value().empty());
  }
  SECTION("a map of other nodes is not that of this configuration, however many have it") {
    other->nodes[0].name = "elsewhere";
    c.maps[3] = c.maps[1] = other;
    CHECK(find_strays(c.settings, c.request.reports, c.maps).value() == Homes{1, 2, 3});
  }
}

// Whoever has taken them for gone may have counted no more than the others for a majority.
TEST_CASE(
    "processes that a map has as lost, and that answer, do not tell that there is no later map") {
  Takeover c(5, 2);
  c.settle();
  const auto before = std::make_shared<const ClusterMap>(c.map);
  for (const NodeId id : Homes{3, 4}) c.request.reports[id].verdict = Verdict::kRefuses;
  c.settle();
  for (const NodeId id : Homes{3, 4}) REQUIRE(c.map.nodes[id].state == NodeState::kLost);

  for (const NodeId id : Homes{3, 4}) c.wake(id);
  for (const NodeId id : Homes{0, 1}) c.silence(id);
  c.maps.assign(5, nullptr);
  c.maps[2] = std::make_shared<const ClusterMap>(c.map);
  c.maps[3] = c.maps[4] = before;
  const auto base = [&] { return choose_base(c.request.reports, c.maps); };
  // Nodes 0 and 1 are a majority of three.
  REQUIRE_FALSE(base());
  CHECK(base().error().code == ErrorCode::kUnavailable);
  SECTION("nor does one that was up, and never got a map") {
    for (const NodeId id : Homes{3, 4}) {
      c.request.reports[id].epoch = {};
      c.maps[id] = nullptr;
    }
    CHECK_FALSE(base());
  }
  SECTION("a majority of the others does") {
    c.wake(1);
    c.maps[1] = c.maps[2];
    CHECK(base().value() == c.maps[2]);
  }
}

TEST_CASE("maps with another number of partitions are of our cluster only where no map has ours") {
  const auto map = [](uint64_t cluster, size_t partitions, const char* name) {
    ClusterMap map;
    map.cluster_id = cluster;
    map.epoch.number = static_cast<uint32_t>(partitions);
    map.partitions.resize(partitions);
    map.nodes.resize(1);
    map.nodes[0].name = name;
    return std::make_shared<const ClusterMap>(std::move(map));
  };
  const auto ours = map(1, 16, "a"), wider = map(2, 32, "a"), elsewhere = map(3, 32, "b");
  const std::vector<node::NodeInfo> configured = ours->nodes;
  CHECK(newest_of_cluster({ours, wider, wider}, configured, 16) == ours);
  CHECK(newest_of_cluster({nullptr, wider, elsewhere, elsewhere}, configured, 16) == wider);
  CHECK(newest_of_cluster({elsewhere}, configured, 16) == nullptr);
  // It can not be told which of them.
  CHECK(newest_of_cluster({wider, map(4, 64, "a")}, configured, 16) == nullptr);
}
