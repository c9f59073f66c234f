// Objects while nodes die: degraded reads, spare nodes, refusals, loss that is told.
#include <catch2/catch.hpp>

#include "proxy/ops/attempt.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe::objects;

namespace elastripe {
namespace {

using namespace std::chrono_literals;

std::string bytes_of(size_t size, unsigned salt) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>((i * 37 + salt) & 0xff);
  return value;
}

// All sets of `count` nodes out of `nodes`.
std::vector<std::vector<size_t>> subsets(size_t nodes, size_t count) {
  std::vector<std::vector<size_t>> result;
  for (size_t bits = 0; bits < size_t{1} << nodes; ++bits) {
    if (static_cast<size_t>(std::popcount(bits)) != count) continue;
    std::vector<size_t> set;
    for (size_t i = 0; i < nodes; ++i) {
      if (bits >> i & 1) set.push_back(i);
    }
    result.push_back(set);
  }
  return result;
}

TEST_CASE("what finds a node's queue full waits a while, and is told so at the deadline") {
  ClusterFixture cluster(5);
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  const Error busy{ErrorCode::kBusy, "the queue to node-1 is full"};
  const auto retry = [&](TimePoint deadline) {
    return cluster.run(before_retry(proxy.ops(), proxy.map().current(), busy, deadline));
  };
  const TimePoint begun = cluster.events().now();
  CHECK(retry(begun + 10s).has_value());
  CHECK(cluster.events().now() - begun >= 200ms);  // virtual time
  const auto late = retry(cluster.events().now() + 100ms);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code == ErrorCode::kBusy);
}

TEST_CASE("any m nodes die and every object reads back, and new ones can be written") {
  constexpr size_t kNodes = 7;
  for (const auto& victims : subsets(kNodes, 2)) {
    CAPTURE(victims);
    ClusterFixture cluster(kNodes, "ers-2:2,2,3");
    sim::SimProxy& proxy = cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
    for (unsigned i = 0; i < 8; ++i) {
      REQUIRE(cluster.put(proxy, "small-" + std::to_string(i), bytes_of(10 + i, i)));
      REQUIRE(cluster.put(proxy, "large-" + std::to_string(i), bytes_of(3000 + i, i)));
    }
    for (const size_t victim : victims) cluster.node(victim).kill(/*silent=*/false);
    for (unsigned i = 0; i < 8; ++i) {
      REQUIRE(cluster.get(proxy, "small-" + std::to_string(i)) == bytes_of(10 + i, i));
      REQUIRE(cluster.get(proxy, "large-" + std::to_string(i)) == bytes_of(3000 + i, i));
    }
    REQUIRE(cluster.put(proxy, "small-0", "new"));
    REQUIRE(cluster.get(proxy, "small-0") == "new");
    REQUIRE(cluster.put(proxy, "large-0", bytes_of(5000, 99)));
    REQUIRE(cluster.get(proxy, "large-0") == bytes_of(5000, 99));
  }
}

TEST_CASE(
    "a node that dies between prepare and commit costs the PUT a second prepare, not the PUT") {
  ClusterFixture cluster(7, "ers-2:2,2,3");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  // The head dies as the commit is on its way to it.
  bool is_killed = false;
  cluster.network().set_delay_rule([&](int, NodeId to, const node::RequestHeader& header) {
    if (header.opcode == node::Opcode::kRecordApply && !is_killed) {
      is_killed = true;
      cluster.events().after(Duration::zero(), [&cluster, to] { cluster.node(to).kill(false); });
      return std::optional<Duration>(std::chrono::milliseconds(5));
    }
    return std::optional<Duration>();
  });
  REQUIRE(cluster.put(proxy, "k", bytes_of(3000, 1)));
  REQUIRE(is_killed);
  REQUIRE(proxy.counters().reprepares > 0);
  REQUIRE(cluster.get(proxy, "k") == bytes_of(3000, 1));
}

TEST_CASE("without a spare node striped writes are refused at once, reads go on") {
  ClusterFixture cluster(4, "rs:3,1");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(cluster.put(proxy, "k", bytes_of(3000, 1)));
  cluster.node(2).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }));
  StoreRequest request;
  request.key = "new";
  const auto stored =
      cluster.run(store_value(proxy.ops(), request, bytes_of(3000, 2), cluster.deadline()));
  REQUIRE_FALSE(stored.has_value());
  REQUIRE(stored.error().code == ErrorCode::kTooFewNodes);
  REQUIRE(cluster.get(proxy, "k") == bytes_of(3000, 1));
}

TEST_CASE("more than m deaths are told as loss, never as a miss") {
  ClusterFixture cluster(6, "rs:2,1");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (unsigned i = 0; i < 30; ++i) {
    REQUIRE(cluster.put(proxy, "small-" + std::to_string(i), bytes_of(10, i)));
    REQUIRE(cluster.put(proxy, "large-" + std::to_string(i), bytes_of(3000, i)));
  }
  for (size_t victim = 0; victim < 3; ++victim) cluster.node(victim).kill(/*silent=*/false);
  size_t lost = 0;
  for (unsigned i = 0; i < 30; ++i) {
    const std::string small = cluster.get(proxy, "small-" + std::to_string(i));
    const std::string large = cluster.get(proxy, "large-" + std::to_string(i));
    REQUIRE(small != "<miss>");
    REQUIRE(large != "<miss>");
    const bool small_lost = small.starts_with("lost");
    const bool large_lost = large.starts_with("lost");
    if (!small_lost) REQUIRE(small == bytes_of(10, i));
    if (!large_lost) REQUIRE(large == bytes_of(3000, i));
    lost += small_lost + large_lost;
  }
  REQUIRE(lost > 0);
}

TEST_CASE(
    "a record of a weaker pool is found while as many homes are silent as any pool survives") {
  ClusterFixture cluster(6, "rs:2,2");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(cluster.put(proxy, "weak:k", "value"));
  const MapPtr map = proxy.map().current();
  const auto homes = map->partitions[map->partition_of("weak:k")].homes;
  cluster.node(homes[0]).stall();
  cluster.node(homes[1]).stall();
  REQUIRE(cluster.run_until([&] {
    const MapPtr next = proxy.map().current();
    return next != nullptr && !next->is_up(homes[0]) && !next->is_up(homes[1]);
  }));
  REQUIRE(cluster.get(proxy, "weak:k") == "value");
  cluster.node(homes[0]).resume();
  cluster.node(homes[1]).resume();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(cluster.get(proxy, "weak:k") == "value");
}

TEST_CASE(
    "without enough homes no command is acknowledged that a crash could undo, and deletes are") {
  ClusterFixture cluster(4, "rs:2,2");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(cluster.put(proxy, "n", "1"));
  cluster.node(0).stall();
  cluster.node(1).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] {
    const MapPtr next = proxy.map().current();
    return next != nullptr && !next->is_up(0) && !next->is_up(1);
  }));
  const auto changed =
      cluster.run(change_counter(proxy.ops(), CounterRequest{"n", 1, true}, cluster.deadline()));
  REQUIRE_FALSE(changed.has_value());
  REQUIRE(changed.error().code == ErrorCode::kTooFewNodes);
  const auto removed = cluster.run(remove_object(proxy.ops(), "n", cluster.deadline()));
  REQUIRE(removed.has_value());
  REQUIRE(*removed);
  REQUIRE(cluster.get(proxy, "n") == "<miss>");

  // Node 0 has the value still: it does not count, whatever dies now.
  cluster.node(2).kill(/*silent=*/false);
  cluster.node(3).kill(/*silent=*/false);
  for (const size_t id : {1u, 2u, 3u}) cluster.node(id).start();
  cluster.node(0).resume();
  REQUIRE(cluster.run_until([&] {
    const MapPtr next = proxy.map().current();
    return next != nullptr && next->is_up(0) && next->is_up(1) && next->is_up(2) && next->is_up(3);
  }));
  REQUIRE(cluster.get(proxy, "n").starts_with("lost"));
}

TEST_CASE("a stalled node is read around, and what was written meanwhile is not forgotten by it") {
  ClusterFixture cluster(7, "ers-2:2,2,3");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (unsigned i = 0; i < 8; ++i) {
    REQUIRE(cluster.put(proxy, "k" + std::to_string(i), bytes_of(i % 2 == 0 ? 10 : 3000, i)));
  }
  cluster.node(3).stall();
  cluster.run_for(std::chrono::seconds(5));
  for (unsigned i = 0; i < 8; ++i) {
    REQUIRE(cluster.get(proxy, "k" + std::to_string(i)) == bytes_of(i % 2 == 0 ? 10 : 3000, i));
    REQUIRE(cluster.put(proxy, "k" + std::to_string(i), bytes_of(i % 2 == 0 ? 3000 : 10, i)));
  }
  cluster.node(3).resume();
  REQUIRE(cluster.run_until(
      [&] { return proxy.map().current()->is_up(3) && cluster.serves_whole(proxy); }));
  for (unsigned i = 0; i < 8; ++i) {
    REQUIRE(cluster.get(proxy, "k" + std::to_string(i)) == bytes_of(i % 2 == 0 ? 3000 : 10, i));
  }
}

}  // namespace
}  // namespace elastripe
