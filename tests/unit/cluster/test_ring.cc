#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "proxy/cluster/placement.h"
#include "proxy/cluster/pool.h"
#include "proxy/cluster/ring.h"

using namespace elastripe;

namespace {

std::vector<std::string> names(size_t count) {
  std::vector<std::string> result;
  for (size_t i = 0; i < count; ++i) result.push_back("node-" + std::to_string(i));
  return result;
}

node::ClusterMap map_of(const std::vector<std::string>& domains) {
  node::ClusterMap map;
  for (size_t i = 0; i < domains.size(); ++i) {
    node::NodeInfo info;
    info.id = static_cast<node::NodeId>(i);
    info.domain = domains[i];
    info.state = node::NodeState::kUp;
    map.nodes.push_back(info);
  }
  return map;
}

std::vector<node::NodeId> order_of(const Ring& ring, size_t partition) {
  std::vector<node::NodeId> order;
  for (const node::NodeId id : ring.order(partition)) order.push_back(id);
  return order;
}

std::vector<node::NodeInfo> nodes_of(size_t count, size_t domains) {
  std::vector<node::NodeInfo> nodes(count);
  for (size_t i = 0; i < count; ++i) {
    nodes[i].id = static_cast<node::NodeId>(i);
    nodes[i].domain = "rack-" + std::to_string(i % domains);
  }
  return nodes;
}

// What the fullest node has in the first `places` places over the average of those that take part.
double fullest(const Ring& ring, const std::vector<node::NodeInfo>& nodes, size_t places) {
  std::vector<double> load(nodes.size());
  double taking = 0;
  for (const node::NodeInfo& node : nodes) taking += node.role == node::NodeRole::kMember;
  for (size_t p = 0; p < ring.partitions(); ++p) {
    std::set<std::string> domains;
    for (const node::NodeId id : ring.order(p)) {
      if (nodes[id].role != node::NodeRole::kMember) continue;
      if (domains.size() == places || !domains.insert(nodes[id].domain).second) continue;
      load[id] += 1;
    }
  }
  const double average = static_cast<double>(ring.partitions() * places) / taking;
  return std::ranges::max(load) / average;
}

const NodeRooms no_rooms(0);
const ShardRoom anywhere{no_rooms, 0, {}};

}  // namespace

TEST_CASE("every partition meets every node once") {
  const Ring ring(names(9), 256);
  REQUIRE(ring.partitions() == 256);
  for (size_t p = 0; p < ring.partitions(); ++p) {
    const std::vector<node::NodeId> order = order_of(ring, p);
    CHECK(std::set(order.begin(), order.end()).size() == 9);
    CHECK(order.size() == 9);
  }
}

TEST_CASE("the ring spreads the first place of partitions over the nodes") {
  const Ring ring(names(8), 4096);
  std::map<node::NodeId, int> firsts;
  for (size_t p = 0; p < ring.partitions(); ++p) ++firsts[*ring.order(p).begin()];
  for (const auto& [id, count] : firsts) {
    INFO("node " << id);
    CHECK(count > 4096 / 8 / 2);
    CHECK(count < 4096 / 8 * 2);
  }
}

TEST_CASE("a further node takes places and leaves the order of the others as it was") {
  const Ring before(names(6), 512);
  const Ring after(names(7), 512);
  for (size_t p = 0; p < 512; ++p) {
    std::vector<node::NodeId> others = order_of(after, p);
    std::erase(others, node::NodeId{6});
    CHECK(others == order_of(before, p));
  }
}

TEST_CASE("the order of a partition never changes between versions") {
  // As hashlib.md5 has it. Every proxy has to compute the same ring, and clusters outlive proxies.
  const Ring ring({"a", "b", "c", "d"}, 4);
  std::vector<std::vector<node::NodeId>> orders;
  for (size_t p = 0; p < 4; ++p) orders.push_back(order_of(ring, p));
  CHECK(orders == std::vector<std::vector<node::NodeId>>{
                      {3, 2, 0, 1}, {1, 2, 0, 3}, {0, 2, 3, 1}, {0, 2, 3, 1}});
  orders.clear();
  for (size_t p = 0; p < 4; ++p) orders.push_back(order_of(ring.evened(nodes_of(4, 4)), p));
  CHECK(orders == std::vector<std::vector<node::NodeId>>{
                      {3, 2, 0, 1}, {1, 2, 0, 3}, {0, 2, 3, 1}, {3, 1, 2, 0}});
}

TEST_CASE("in a ring that is made even no node has much more than the average") {
  const auto [count, domains, partitions] =
      GENERATE(std::tuple{8u, 8u, 1024u}, std::tuple{20u, 20u, 1024u}, std::tuple{50u, 10u, 4096u},
               std::tuple{200u, 200u, 16384u});
  const auto nodes = nodes_of(count, domains);
  const Ring hashed(names(count), partitions);
  const Ring even = hashed.evened(nodes);
  double worst = 0;
  for (const size_t places : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u}) {
    if (places > domains) break;
    INFO(count << " nodes, " << places << " places");
    worst = std::max(worst, fullest(hashed, nodes, places));
    CHECK(fullest(even, nodes, places) < 1.12);
  }
  CHECK(worst > 1.1);
  for (size_t p = 0; p < partitions; ++p) CHECK(order_of(even, p).size() == count);
}

TEST_CASE("who has drained is removed from a ring that is made even without a change") {
  auto nodes = nodes_of(20, 20);
  nodes[7].role = node::NodeRole::kDraining;
  const Ring draining = Ring(names(20), 1024).evened(nodes);
  CHECK(fullest(draining, nodes, 3) < 1.1);
  auto left = names(20);
  left[7] = "";
  nodes[7].role = node::NodeRole::kRemoved;
  const Ring removed = Ring(left, 1024).evened(nodes);
  for (size_t p = 0; p < 1024; ++p) {
    auto order = order_of(draining, p);
    std::erase(order, node::NodeId{7});
    CHECK(order == order_of(removed, p));
  }
}

TEST_CASE("where domains differ in size, nodes of one have as much as each other") {
  // Every partition has one of each in its first three places.
  const std::vector<size_t> sizes =
      GENERATE(std::vector<size_t>{12, 7, 1}, std::vector<size_t>{10, 10, 8},
               std::vector<size_t>{10, 10, 5}, std::vector<size_t>{20, 3, 2});
  const size_t count = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  constexpr size_t kPartitions = 4096;
  std::vector<node::NodeInfo> nodes;
  for (size_t domain = 0; domain < sizes.size(); ++domain) {
    for (size_t i = 0; i < sizes[domain]; ++i) {
      nodes.emplace_back();
      nodes.back().id = static_cast<node::NodeId>(nodes.size() - 1);
      nodes.back().domain = "rack-" + std::to_string(domain);
    }
  }
  const auto fullest_in = [&](const Ring& ring, const std::string& domain, size_t size) {
    std::map<node::NodeId, double> load;
    for (size_t p = 0; p < kPartitions; ++p) {
      for (const node::NodeId id : ring.order(p)) {
        if (nodes[id].domain != domain) continue;
        load[id] += 1;
        break;
      }
    }
    double most = 0;
    for (const auto& [id, times] : load) most = std::max(most, times);
    return most * static_cast<double>(size) / kPartitions;
  };
  const Ring hashed(names(count), kPartitions);
  const Ring even = hashed.evened(nodes);
  double worst = 0;
  for (size_t domain = 0; domain < sizes.size(); ++domain) {
    const std::string name = "rack-" + std::to_string(domain);
    INFO(name << " of " << sizes[0] << ", " << sizes[1] << " and " << sizes[2]);
    worst = std::max(worst, fullest_in(hashed, name, sizes[domain]));
    CHECK(fullest_in(even, name, sizes[domain]) < 1.1);
  }
  CHECK(worst > 1.15);
}

TEST_CASE("a ring whose nodes all drain is as hashes have it") {
  auto nodes = nodes_of(20, 20);
  for (auto& node : nodes) node.role = node::NodeRole::kDraining;
  const Ring hashed(names(20), 64);
  const Ring even = hashed.evened(nodes);
  for (size_t p = 0; p < 64; ++p) CHECK(order_of(even, p) == order_of(hashed, p));
}

TEST_CASE("homes are the first up nodes of the ring in distinct domains") {
  const Ring ring(names(6), 64);
  auto map = map_of({"r0", "r0", "r1", "r1", "r2", "r2"});
  map.nodes[2].state = node::NodeState::kSuspect;
  for (size_t p = 0; p < 64; ++p) {
    const auto homes = homes_of(map, ring, p, 3);
    REQUIRE(homes.size() == 3);
    std::set<std::string> domains;
    std::vector<node::NodeId> expected;
    for (const node::NodeId id : ring.order(p)) {
      if (id == 2 || !domains.insert(map.nodes[id].domain).second) continue;
      expected.push_back(id);
    }
    CHECK(homes == expected);
  }
}

TEST_CASE("homes are fewer when there are not enough domains, and chosen nodes are refused") {
  const Ring ring(names(4), 8);
  const auto map = map_of({"r0", "r0", "r1", "r1"});
  CHECK(homes_of(map, ring, 0, 3).size() == 2);
  CHECK(choose_nodes(map, ring, 0, 2, {}, anywhere).has_value());
  const auto refused = choose_nodes(map, ring, 0, 3, {}, anywhere);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::kUnavailable);
  CHECK(refused.error().message == "3 nodes in distinct domains are needed, 2 are up");
}

TEST_CASE("chosen nodes avoid the excluded ones and their domains") {
  const Ring ring(names(6), 32);
  const auto map = map_of({"r0", "r0", "r1", "r1", "r2", "r2"});
  for (size_t p = 0; p < 32; ++p) {
    const auto chosen = choose_nodes(map, ring, p, 2, {0}, anywhere);
    REQUIRE(chosen);
    for (const node::NodeId id : *chosen) CHECK(map.nodes[id].domain != "r0");
    CHECK(!choose_nodes(map, ring, p, 3, {0}, anywhere));
  }
}

TEST_CASE("a key belongs to the pool with its longest prefix") {
  const PoolTable table({Pool{.prefix = "", .scheme = *coding::parse_scheme("rs:4,1")},
                         Pool{.prefix = "s:", .scheme = *coding::parse_scheme("rep:3")},
                         Pool{.prefix = "s:big:", .scheme = *coding::parse_scheme("rs:6,3")}});
  CHECK(table.pool_of("x").prefix.empty());
  CHECK(table.pool_of("s").prefix.empty());
  CHECK(table.pool_of("s:1").prefix == "s:");
  CHECK(table.pool_of("s:big:1").prefix == "s:big:");
  CHECK(table.max_parities() == 3);
}
