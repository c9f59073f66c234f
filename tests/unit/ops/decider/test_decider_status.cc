// What a status tells of a map, and what it does not know.
#include <catch2/catch.hpp>

#include "proxy/ops/decider/decider_status.h"

namespace elastripe::decider {
namespace {

constexpr TimePoint kNow{std::chrono::hours(1)};

// Three nodes and three partitions, of which nodes have told nothing. Node 2 came last: no
// partition but the last one is there.
node::ClusterMap three_nodes() {
  node::ClusterMap map;
  map.cluster_id = 0xab;
  map.epoch = {.number = 9, .decider = 7, .map_hash = 1};
  map.settings.version = 4;
  for (node::NodeId id = 0; id < 3; ++id) {
    node::NodeInfo& node = map.nodes.emplace_back();
    node.id = id;
    node.name = "n" + std::to_string(id);
  }
  map.partitions.resize(3);
  map.partitions[0].homes = {0, 1};
  map.partitions[0].synced = true;
  map.partitions[1].lost = true;
  map.partitions[2].homes = {0, 2};
  map.partitions[2].sources = {{1}};
  return map;
}

ClusterStatus status_of(const node::ClusterMap& map, const std::deque<Peer>& peers) {
  ClusterStatus status;
  describe_nodes(status, &map, map.nodes, peers, kNow);
  describe_map(status, map, peers);
  return status;
}

}  // namespace

TEST_CASE("a status tells of each node what the map has it do") {
  const node::ClusterMap map = three_nodes();
  const ClusterStatus status = status_of(map, std::deque<Peer>(3));
  CHECK(status.partitions == 3);
  CHECK(status.partitions_lost == 1);
  CHECK(status.partitions_synced == 1);
  REQUIRE(status.nodes.size() == 3);
  CHECK(status.nodes[0].partitions_home == 2);
  CHECK(status.nodes[0].partitions_synced == 1);
  CHECK(status.nodes[1].partitions_home == 1);
  CHECK(status.nodes[1].partitions_source == 1);
  CHECK(status.nodes[2].partitions_home == 1);
  CHECK(status.nodes[2].partitions_synced == 0);
}

TEST_CASE("a status of a map with members that are not asked yet tells of no partition") {
  const node::ClusterMap map = three_nodes();
  const ClusterStatus status = status_of(map, std::deque<Peer>(2));
  CHECK(status.epoch == map.epoch);
  CHECK(status.cluster_id == 0xab);
  CHECK(status.settings_version == 4);
  // None of them is known to be whole.
  CHECK(status.partitions == 3);
  CHECK(status.partitions_synced == 0);
  CHECK(status.partitions_lost == 0);
  REQUIRE(status.nodes.size() == 2);
  for (const NodeStatus& node : status.nodes) {
    CHECK(node.info.name == map.nodes[node.info.id].name);
    CHECK(node.partitions_home == 0);
    CHECK(node.partitions_synced == 0);
    CHECK(node.partitions_source == 0);
  }
}

}  // namespace elastripe::decider
