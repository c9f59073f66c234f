// Which nodes take shards, by the room that they tell.
#include <algorithm>
#include <catch2/catch.hpp>

#include "proxy/cluster/placement.h"

using namespace elastripe;

namespace {

constexpr size_t kNodes = 6;
constexpr size_t kPartitions = 64;
constexpr uint64_t kShard = 1000;

struct Cluster {
  Cluster() : rooms(kNodes) {
    for (size_t id = 0; id < kNodes; ++id) {
      node::NodeInfo info;
      info.id = static_cast<node::NodeId>(id);
      info.domain = info.name = "node-" + std::to_string(id);
      info.state = node::NodeState::kUp;
      names.push_back(info.name);
      map.nodes.push_back(info);
    }
  }
  Result<std::vector<node::NodeId>> choose(size_t partition, size_t count,
                                           const std::vector<node::NodeId>& refused = {}) const {
    return choose_nodes(map, Ring(names, kPartitions), partition, count, {},
                        {rooms, kShard, refused});
  }
  // How many partitions choose the node.
  size_t uses(node::NodeId id, size_t count) const {
    size_t result = 0;
    for (size_t p = 0; p < kPartitions; ++p) {
      const auto chosen = choose(p, count);
      REQUIRE(chosen);
      result += static_cast<size_t>(std::ranges::count(*chosen, id));
    }
    return result;
  }

  node::ClusterMap map;
  std::vector<std::string> names;
  NodeRooms rooms;
};

TEST_CASE("a node without room for the shard is left out while there are enough others") {
  Cluster cluster;
  for (node::NodeId id = 0; id < kNodes; ++id) cluster.rooms.note_free_bytes(id, 100 * kShard);
  REQUIRE(cluster.uses(2, 3) > 0);
  SECTION("since it is full") { cluster.rooms.note_free_bytes(2, kShard / 2); }
  SECTION("since it will be, by what is on its way") {
    cluster.rooms.enter_anyway(2, 100 * kShard - kShard / 2);
  }
  CHECK(cluster.uses(2, 3) == 0);
  CHECK(cluster.uses(2, kNodes - 1) == 0);
  CHECK(cluster.uses(2, kNodes) == kPartitions);  // it may take it all the same
}

TEST_CASE("a node with less than half the room of the others keeps it for records") {
  Cluster cluster;
  for (node::NodeId id = 0; id < kNodes; ++id) cluster.rooms.note_free_bytes(id, 100 * kShard);
  cluster.rooms.note_free_bytes(2, 60 * kShard);
  CHECK(cluster.uses(2, 3) > 0);
  cluster.rooms.note_free_bytes(2, 40 * kShard);
  CHECK(cluster.uses(2, 3) == 0);
  SECTION("until the others have no more than it") {
    for (node::NodeId id = 0; id < kNodes; ++id) cluster.rooms.note_free_bytes(id, 50 * kShard);
    CHECK(cluster.uses(2, 3) > 0);
  }
  SECTION("or until no other has room") {
    for (node::NodeId id = 3; id < kNodes; ++id) cluster.rooms.note_free_bytes(id, 0);
    CHECK(cluster.uses(2, 3) == kPartitions);
  }
}

TEST_CASE("what nodes refuse goes to others with room, or nowhere") {
  Cluster cluster;
  for (node::NodeId id = 0; id < kNodes; ++id) cluster.rooms.note_free_bytes(id, 100 * kShard);
  for (size_t p = 0; p < kPartitions; ++p) {
    const auto chosen = cluster.choose(p, 4, {1, 4});
    REQUIRE(chosen);
    CHECK(std::ranges::none_of(*chosen, [](node::NodeId id) { return id == 1 || id == 4; }));
  }
  const auto refused = cluster.choose(0, 5, {1, 4});
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::kNoSpace);
  cluster.rooms.note_free_bytes(0, 0);
  CHECK(!cluster.choose(0, 4, {1, 4}));
  CHECK(cluster.choose(0, 4, {4}));
  cluster.map.nodes[3].state = node::NodeState::kLost;
  const auto too_few = cluster.choose(0, 6, {1});
  REQUIRE(!too_few);
  CHECK(too_few.error().code == ErrorCode::kUnavailable);
}

}  // namespace
