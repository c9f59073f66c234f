#include <catch2/catch.hpp>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/sync.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace std::chrono_literals;

namespace {

// What a home holds of the key, whether synced or not.
RecordPtr held(ClusterFixture& cluster, sim::SimProxy& proxy, node::NodeId id,
               const std::string& key) {
  const auto read = cluster.run(read_record(proxy.ops().nodes, proxy.map().current(), id,
                                            node::Role::kAny, key, 0, cluster.deadline()));
  REQUIRE(read.has_value());
  return read->record;
}

}  // namespace

TEST_CASE("after a death every home has every record, in the newest version") {
  ClusterFixture cluster(6, "rs:2,2");
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (int i = 0; i < 60; ++i) REQUIRE(cluster.put(proxy, "key" + std::to_string(i), "old"));
  for (int i = 0; i < 60; i += 2) REQUIRE(cluster.put(proxy, "key" + std::to_string(i), "new"));
  cluster.node(4).kill(/*silent=*/false);
  cluster.node(5).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }, 5s));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
  const auto map = proxy.map().current();
  for (int i = 0; i < 60; ++i) {
    const std::string key = "key" + std::to_string(i);
    for (const auto home : map->partitions[map->partition_of(key)].homes) {
      const RecordPtr record = held(cluster, proxy, home, key);
      REQUIRE(record != nullptr);
      CHECK(record->content.value == (i % 2 == 0 ? "new" : "old"));
    }
  }
}

TEST_CASE("one key is synced on access, before its partition is") {
  ClusterFixture cluster;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(cluster.put(proxy, "key", "value"));
  const auto before = proxy.map().current();
  const auto homes = before->partitions[before->partition_of("key")].homes;
  // The background sync can not go on: its scans never arrive.
  cluster.network().set_delay_rule(
      [](int, node::NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode == node::Opcode::kRecordScan) return Duration(1h);
        return std::nullopt;
      });
  cluster.node(homes[0]).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }, 5s));
  const auto map = proxy.map().current();
  CHECK(!map->partitions[map->partition_of("key")].synced);
  CHECK(cluster.get(proxy, "key") == "value");
  CHECK(cluster.get(proxy, "none") == "<miss>");
  CHECK(proxy.counters().key_syncs > 0);
  for (const auto home : map->partitions[map->partition_of("key")].homes) {
    CHECK(held(cluster, proxy, home, "key") != nullptr);
  }
}

TEST_CASE("the sweep pushes a page of records a few at a time, not to hold heartbeats up") {
  ClusterFixture cluster;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  // All in one partition, so in one page of one source.
  const auto before = proxy.map().current();
  const size_t partition = before->partition_of("key0");
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < 300; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (before->partition_of(key) == partition) keys.push_back(key);
  }
  for (const std::string& key : keys) REQUIRE(cluster.put(proxy, key, "value"));

  size_t stores = 0, on_their_way = 0, most = 0;
  cluster.network().set_delay_rule(
      [&](int, node::NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode != node::Opcode::kRecordStore) return std::nullopt;
        ++stores;
        most = std::max(most, ++on_their_way);
        cluster.events().after(10ms, [&] { --on_their_way; });
        return Duration(10ms);
      });
  cluster.node(before->partitions[partition].homes[0]).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }, 5s));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
  CHECK(stores >= keys.size());
  CHECK(most <= 64);
  for (const std::string& key : keys) CHECK(cluster.get(proxy, key) == "value");
}

TEST_CASE("a stopped sync marks nothing") {
  ClusterFixture cluster;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  cluster.network().set_delay_rule(
      [](int, node::NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode == node::Opcode::kMarkSynced) return Duration(1h);
        return std::nullopt;
      });
  cluster.node(0).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }, 5s));
  const bool stop = true;
  const auto done = cluster.run(sync_partitions(proxy.ops(), proxy.map().current(), &stop));
  REQUIRE(!done);
  CHECK(done.error().code == ErrorCode::kCancelled);
}

TEST_CASE("a key of a LOST partition is lost, not missing") {
  ClusterFixture cluster;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  const auto before = proxy.map().current();
  for (const auto home : before->partitions[before->partition_of("key")].homes) {
    cluster.node(home).kill(/*silent=*/false);
  }
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }, 5s));
  const auto synced =
      cluster.run(sync_key(proxy.ops(), proxy.map().current(), "key", cluster.deadline()));
  REQUIRE(!synced);
  CHECK(synced.error().code == ErrorCode::kLost);
}
