#include <catch2/catch.hpp>

#include "proxy/cluster/members.h"
#include "proxy/cluster/takeover.h"

using namespace elastripe;
using node::NodeInfo;
using node::NodeRole;
using node::NodeState;

namespace {

NodeInfo node_of(const std::string& name, NodeState state = NodeState::kUp) {
  NodeInfo info;
  info.name = info.host = info.domain = name;
  info.port = 1;
  info.incarnation = 7;
  info.state = state;
  return info;
}

std::vector<NodeInfo> nodes_of(const std::vector<std::string>& names) {
  std::vector<NodeInfo> nodes;
  for (const std::string& name : names) {
    nodes.push_back(node_of(name));
    nodes.back().id = static_cast<node::NodeId>(nodes.size() - 1);
  }
  return nodes;
}

std::vector<std::string> names_of(const std::vector<NodeInfo>& nodes) {
  std::vector<std::string> names;
  for (size_t id = 0; id < nodes.size(); ++id) {
    CHECK(nodes[id].id == id);
    names.push_back(nodes[id].name);
  }
  return names;
}

using Kind = MemberChange::Kind;

}  // namespace

TEST_CASE("a node is added at the end of the list") {
  const auto nodes = nodes_of({"a", "b"});
  const auto more = changed_members(nodes, {Kind::kAdd, node_of("c")});
  REQUIRE(more);
  CHECK(names_of(*more) == std::vector<std::string>{"a", "b", "c"});
  CHECK(more->back().incarnation == 0);
  CHECK(more->back().state == NodeState::kLost);
}

TEST_CASE("a name and an address mean one node") {
  auto nodes = nodes_of({"a", "b"});
  CHECK(changed_members(nodes, {Kind::kAdd, node_of("b")}).error().code == ErrorCode::kConflict);
  NodeInfo other = node_of("c");
  other.host = "b";
  CHECK(changed_members(nodes, {Kind::kAdd, other}).error().message ==
        "b:1 is the address of node b");

  SECTION("but a node that is lost may be somewhere else now") {
    nodes[1].state = NodeState::kLost;
    NodeInfo moved = node_of("b");
    moved.host = "elsewhere";
    const auto after = changed_members(nodes, {Kind::kAdd, moved});
    REQUIRE(after);
    CHECK(names_of(*after) == std::vector<std::string>{"a", "b"});
    CHECK((*after)[1].host == "elsewhere");
  }
  SECTION("and one that was removed may come back, or leave its address to another") {
    const auto without = changed_members(nodes, {Kind::kRemove, node_of("b")});
    REQUIRE(without);
    CHECK((*without)[1].is_removed());
    CHECK(changed_members(*without, {Kind::kAdd, other}));
    const auto back = changed_members(*without, {Kind::kAdd, node_of("b")});
    REQUIRE(back);
    CHECK_FALSE((*back)[1].is_removed());
  }
}

TEST_CASE("who is not there can not be changed, and the last one stays") {
  const auto nodes = nodes_of({"a", "b"});
  for (const Kind kind : {Kind::kDrain, Kind::kRefill, Kind::kRemove}) {
    CHECK(changed_members(nodes, {kind, node_of("x")}).error().code == ErrorCode::kNotFound);
  }
  const auto one = changed_members(nodes, {Kind::kRemove, node_of("a")});
  REQUIRE(one);
  CHECK(changed_members(*one, {Kind::kDrain, node_of("a")}).error().code == ErrorCode::kNotFound);
  CHECK(changed_members(*one, {Kind::kRemove, node_of("b")}).error().code == ErrorCode::kConflict);
}

TEST_CASE("a drain can be taken back") {
  const auto draining = changed_members(nodes_of({"a", "b"}), {Kind::kDrain, node_of("b")});
  REQUIRE(draining);
  CHECK((*draining)[1].role == NodeRole::kDraining);
  const auto back = changed_members(*draining, {Kind::kRefill, node_of("b")});
  REQUIRE(back);
  CHECK(are_same_members(*back, nodes_of({"a", "b"})));
}

TEST_CASE("the map says who the members are, and the configuration adds whom it does not know") {
  auto of_map = nodes_of({"b", "a", "c"});
  of_map[2].role = NodeRole::kRemoved;
  of_map[0].host = "moved";
  const auto merged = merged_members(of_map, nodes_of({"a", "b", "c", "d"}));
  CHECK(names_of(merged) == std::vector<std::string>{"b", "a", "c", "d"});
  CHECK(merged[0].host == "moved");
  CHECK(merged[2].is_removed());
}

TEST_CASE("a new name for the address of a member makes no new node") {
  auto of_map = nodes_of({"a", "b"});
  of_map[1].role = NodeRole::kRemoved;
  auto configured = nodes_of({"x", "y"});
  configured[0].host = "a";
  configured[1].host = "b";
  CHECK(names_of(merged_members(of_map, configured)) == std::vector<std::string>{"a", "b", "y"});
}

TEST_CASE("a node that comes back elsewhere keeps its domain, unless another one is said") {
  auto nodes = nodes_of({"a", "b"});
  nodes[1].state = NodeState::kLost;
  nodes[1].domain = "rack3";
  nodes[1].role = NodeRole::kDraining;
  NodeInfo moved = node_of("b");
  moved.host = "elsewhere";
  moved.domain.clear();
  const auto after = changed_members(nodes, {Kind::kAdd, moved});
  REQUIRE(after);
  CHECK((*after)[1].domain == "rack3");
  CHECK((*after)[1].role == NodeRole::kDraining);
  NodeInfo fresh = node_of("c");
  fresh.domain.clear();
  CHECK(changed_members(nodes, {Kind::kAdd, fresh})->back().domain == "c");
  moved.domain = "rack4";
  CHECK((*changed_members(nodes, {Kind::kAdd, moved}))[1].domain == "rack4");
}

TEST_CASE("there are not more nodes than ids") {
  std::vector<NodeInfo> nodes(0xFFFF, node_of("a"));
  CHECK(changed_members(nodes, {Kind::kAdd, node_of("b")}).error().code == ErrorCode::kConflict);
}

TEST_CASE("a map is believed by the node that was asked, as which it knows itself") {
  node::ClusterMap map;
  map.nodes = nodes_of({"a", "b"});
  map.nodes[1].incarnation = 8;
  CHECK(names_as_known(map, map.nodes[0], 7));
  CHECK_FALSE(names_as_known(map, map.nodes[0], 8));
  // A process that the map does not know as alive.
  CHECK(names_as_known(map, map.nodes[1], 99));
  CHECK_FALSE(names_as_known(map, node_of("c"), 99));
  NodeInfo elsewhere = map.nodes[0];
  elsewhere.host = "elsewhere";
  CHECK_FALSE(names_as_known(map, elsewhere, 99));
  map.nodes[1].role = NodeRole::kRemoved;
  CHECK(names_as_known(map, map.nodes[1], 8));
}

TEST_CASE("removed nodes are not on the ring") {
  auto nodes = nodes_of({"a", "b", "c"});
  nodes[1].role = NodeRole::kRemoved;
  const Members members(nodes, 8);
  for (size_t p = 0; p < 8; ++p) {
    std::vector<node::NodeId> order;
    for (const node::NodeId id : members.hashed.order(p)) order.push_back(id);
    CHECK(order.size() == 2);
    CHECK(std::ranges::count(order, 1) == 0);
  }
}

TEST_CASE("the newest map of the cluster that most nodes are of leads to its members") {
  const auto map = [](uint64_t cluster, uint32_t number, std::vector<NodeInfo> nodes,
                      size_t partitions = 4) {
    node::ClusterMap made;
    made.cluster_id = cluster;
    made.epoch.number = number;
    made.nodes = std::move(nodes);
    made.partitions.resize(partitions);
    return std::make_shared<const node::ClusterMap>(made);
  };
  const auto ours = nodes_of({"a", "b"});
  const auto old = map(1, 3, ours);
  const auto newer = map(1, 5, nodes_of({"a", "b", "c"}));
  const auto other = map(2, 9, ours);
  CHECK(newest_of_cluster({old, newer, nullptr, other}, ours, 4) == newer);
  CHECK(newest_of_cluster({old, other}, ours, 4) == nullptr);
  CHECK(newest_of_cluster({other, map(3, 8, nodes_of({"x"})), map(3, 8, nodes_of({"x"}))}, ours,
                          4) == other);
  CHECK(newest_of_cluster({old, map(1, 9, ours, 8)}, ours, 4) == old);
  CHECK(newest_of_cluster({nullptr}, ours, 4) == nullptr);
}
