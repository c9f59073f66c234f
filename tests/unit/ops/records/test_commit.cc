// Commits whose proxy did not get to the end of the chain.
#include <catch2/catch.hpp>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/records/commit.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe::records;
using namespace elastripe::objects;

namespace elastripe {
namespace {

std::string key_of_lost_partition(const node::ClusterMap& map) {
  for (int i = 0;; ++i) {
    std::string key = "k" + std::to_string(i);
    const auto& partition = map.partitions[map.partition_of(key)];
    if (partition.lost && partition.homes.size() > 1) return key;
  }
}

TEST_CASE("a lost key that was revived at its head only is revived by the next command as well") {
  ClusterFixture cluster(6, "rs:2,1");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (size_t victim = 0; victim < 3; ++victim) cluster.node(victim).kill(/*silent=*/false);
  const auto has_lost_partitions = [&] {
    const MapPtr map = proxy.map().current();
    return map != nullptr && !map->is_up(2) &&
           std::ranges::any_of(map->partitions, &node::Partition::lost);
  };
  REQUIRE(cluster.run_until(has_lost_partitions));
  const std::string key = key_of_lost_partition(*proxy.map().current());

  // The proxy that sets it gets no further than to the head.
  cluster.network().set_delay_rule([](int, NodeId, const node::RequestHeader& header) {
    return header.opcode == node::Opcode::kRecordStore
               ? std::optional<Duration>(std::chrono::hours(1))
               : std::nullopt;
  });
  const auto set = cluster.store(proxy, StoreVerb::kSet, key, "one");
  REQUIRE(!set);
  REQUIRE(set.error().code == ErrorCode::kUnknownOutcome);
  cluster.network().set_delay_rule(nullptr);
  REQUIRE(cluster.get(proxy, key).starts_with("lost"));

  SECTION("by one that commits") {
    const auto appended = cluster.store(proxy, StoreVerb::kAppend, key, " two");
    REQUIRE(appended.has_value());
    REQUIRE(*appended == StoreStatus::kStored);
    CHECK(cluster.get(proxy, key) == "one two");
  }
  SECTION("by one that is refused for what the head has") {
    const auto added = cluster.store(proxy, StoreVerb::kAdd, key, "two");
    REQUIRE(added.has_value());
    REQUIRE(*added == StoreStatus::kNotStored);
    CHECK(cluster.get(proxy, key) == "one");
  }
}

Task<void> fence(OpsContext& ops, std::string key, TimePoint deadline, bool* done) {
  Commit commit;
  commit.key = key;
  commit.mutation = node::Mutation::kFence;
  const auto result = co_await commit_record(ops, commit, deadline);
  *done = result.has_value() && result->status == CommitStatus::kCommitted;
}

TEST_CASE("a counter tells its value although a fence came between the head and the tail") {
  ClusterFixture cluster(5, "rs:2,1");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(cluster.put(proxy, "n", "41"));
  Scope scope;
  bool fenced = false;
  bool is_first = true;
  cluster.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    if (header.opcode != node::Opcode::kRecordStore || !is_first) return std::optional<Duration>();
    is_first = false;
    scope.spawn(fence(proxy.ops(), "n", cluster.deadline(), &fenced));
    return std::optional<Duration>(std::chrono::hours(1));
  });
  const auto changed =
      cluster.run(change_counter(proxy.ops(), CounterRequest{"n", 1, true}, cluster.deadline()));
  cluster.network().set_delay_rule(nullptr);
  REQUIRE(fenced);
  REQUIRE(changed.has_value());
  CHECK(changed->value == 42);
  CHECK(cluster.get(proxy, "n") == "42");
}

TEST_CASE("a segment table that does not fit in a frame is refused, and nothing is sent") {
  ClusterFixture cluster(5, "rs:2,1");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  Commit huge;
  huge.key = "k";
  huge.mutation = node::Mutation::kSet;
  huge.content.kind = node::RecordKind::kStriped;
  huge.content.scheme = coding::parse_scheme("rs:2,1").value();
  node::Segment segment;
  segment.placement = {0, 1, 2};
  huge.content.segments.assign(200'000, segment);
  uint64_t applied = 0;
  cluster.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    applied += header.opcode == node::Opcode::kRecordApply;
    return std::nullopt;
  });
  const auto result = cluster.run(commit_record(proxy.ops(), huge, cluster.deadline()));
  cluster.network().set_delay_rule(nullptr);
  REQUIRE(!result);
  CHECK(result.error().code == ErrorCode::kTooLarge);
  CHECK(applied == 0);
  CHECK(cluster.get(proxy, "k") == "<miss>");
}

Task<void> increment(OpsContext& ops, TimePoint deadline,
                     std::optional<Result<CounterOutcome>>* out) {
  *out = co_await change_counter(ops, CounterRequest{"n", 1, true}, deadline);
}

TEST_CASE("a command whose time is over when it gets the key is refused, and not sent") {
  ClusterFixture cluster(5, "rs:2,1");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(cluster.put(proxy, "n", "1"));
  uint64_t applied = 0;
  cluster.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    if (header.opcode != node::Opcode::kRecordApply) return std::optional<Duration>();
    ++applied;
    return std::optional<Duration>(std::chrono::hours(1));
  });
  Scope scope;
  std::optional<Result<CounterOutcome>> first, second;
  scope.spawn(increment(proxy.ops(), cluster.deadline(), &first));
  scope.spawn(increment(proxy.ops(), cluster.events().now() + std::chrono::seconds(3), &second));
  REQUIRE(cluster.run_until([&] { return first && second; }));
  cluster.network().set_delay_rule(nullptr);
  REQUIRE(!*first);
  CHECK(first->error().code == ErrorCode::kUnknownOutcome);
  REQUIRE(!*second);
  CHECK(second->error().code == ErrorCode::kNotSent);
  CHECK(applied == 1);
}

TEST_CASE("a commit that was lost is done again although the key had many commits before") {
  ClusterFixture cluster(6, "rs:2,1");
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  const auto count = [&] {
    return cluster.run(
        change_counter(proxy.ops(), CounterRequest{"n", 1, true}, cluster.deadline()));
  };
  REQUIRE(cluster.put(proxy, "n", "0"));
  for (int i = 0; i < 12; ++i) REQUIRE(count().has_value());
  const auto homes = cluster.homes_of(proxy, "n");
  std::vector<NodeId> others;
  for (NodeId id = 0; id < 6; ++id) {
    if (std::ranges::find(homes, id) == homes.end()) others.push_back(id);
  }
  const auto dies = [&](NodeId id) {
    const uint32_t before = proxy.map().current()->epoch.number;
    cluster.node(id).kill(/*silent=*/false);
    return cluster.run_until([&] {
      const MapPtr map = proxy.map().current();
      return map != nullptr && map->epoch.number > before && cluster.serves_whole(proxy);
    });
  };
  REQUIRE(dies(others[0]));
  // The frame never arrives, and another map says so.
  bool is_lost = false;
  cluster.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    if (header.opcode != node::Opcode::kRecordApply || is_lost) return std::optional<Duration>();
    is_lost = true;
    cluster.events().after(std::chrono::seconds(1),
                           [&, id = others[1]] { cluster.node(id).kill(/*silent=*/false); });
    return std::optional<Duration>(std::chrono::hours(1));
  });
  const auto last = count();
  cluster.network().set_delay_rule(nullptr);
  REQUIRE(is_lost);
  REQUIRE(last.has_value());
  CHECK(last->value == 13);
}

}  // namespace
}  // namespace elastripe
