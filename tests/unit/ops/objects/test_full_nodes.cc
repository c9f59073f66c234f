// Writes while some nodes are full: they go to the others, and what can not go on is refused before
// it is stuck half-way.
#include <catch2/catch.hpp>

#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe::objects;

namespace elastripe {
namespace {

constexpr sim::NodeMemory kSmall{.limit_bytes = 288 << 10, .reserve_bytes = 32 << 10};
constexpr uint64_t kSoftLimit = kSmall.limit_bytes - kSmall.reserve_bytes;

std::string bytes_of(size_t size, unsigned salt) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>((i * 37 + salt) & 0xff);
  return value;
}

uint64_t free_bytes(ClusterFixture& cluster, size_t id) {
  return cluster.node(id).store().memory().free_bytes;
}

uint64_t left_bytes(ClusterFixture& cluster) {
  uint64_t left = 0;
  for (size_t id = 0; id < cluster.network().nodes(); ++id) left += free_bytes(cluster, id);
  return left;
}

// Something else on the node, that leaves `free` bytes of it.
void fill(ClusterFixture& cluster, size_t id, uint64_t free) {
  node::ArenaStore& store = cluster.node(id).store();
  for (int n = 0; free_bytes(cluster, id) > free + 100; ++n) {
    const size_t bytes = std::min<uint64_t>(free_bytes(cluster, id) - free - 60, 4000);
    const node::ItemRef item =
        store.allocate("filler" + std::to_string(n), bytes - 40, node::Urgency::kNewData);
    REQUIRE(item);
    store.link(item);
  }
}

TEST_CASE("a node that is fuller than the others does not make the cluster refuse objects") {
  ClusterFixture cluster(6, "rs:2,1", 1, kSmall);
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  fill(cluster, 2, kSoftLimit / 8);
  cluster.run_for(std::chrono::seconds(1));
  int stored = 0;
  Result<StoreOutcome> last = StoreStatus::kStored;
  while (last) {
    last = cluster.store(proxy, StoreVerb::kSet, "k" + std::to_string(stored), bytes_of(8000, 1));
    stored += last.has_value();
  }
  INFO(stored << " objects, then " << to_string(last.error()));
  CHECK(left_bytes(cluster) < 6 * kSoftLimit / 20);
  for (int i = 0; i < stored; ++i) {
    REQUIRE(cluster.get(proxy, "k" + std::to_string(i)) == bytes_of(8000, 1));
  }
}

Task<Result<UpdateOutcome>> update_with(OpsContext& ops, std::string key, std::string bytes,
                                        TimePoint deadline) {
  WholeValue whole(Buffer::copy_of(bytes));
  UpdateRequest request{.key = key};
  request.offset = 5;
  request.value = &whole;
  co_return co_await update_object(ops, request, deadline);
}

TEST_CASE("an update of shards on a full node has them made on another one") {
  ClusterFixture cluster(6, "rs:2,1", 1, kSmall);
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  const std::string key = "unlogged:k";
  std::string value = bytes_of(8000, 1);
  REQUIRE(cluster.put(proxy, key, value));
  const auto report = cluster.run(inspect_object(proxy.ops(), key, cluster.deadline()));
  REQUIRE(report.has_value());
  fill(cluster, report->record->content.segments[0].placement[0], 1000);
  cluster.run_for(std::chrono::seconds(1));
  const auto outcome = cluster.run(update_with(proxy.ops(), key, "hello", cluster.deadline()));
  REQUIRE(outcome.has_value());
  CHECK(outcome->status == UpdateStatus::kUpdated);
  value.replace(5, 5, "hello");
  CHECK(cluster.get(proxy, key) == value);
}

TEST_CASE("nodes that come back empty take what the full ones can not") {
  ClusterFixture cluster(6, "rs:2,1", 1, kSmall);
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (size_t id = 0; id < 3; ++id) fill(cluster, id, kSoftLimit / 8);
  cluster.run_for(std::chrono::seconds(1));
  int stored = 0;
  while (cluster.put(proxy, "k" + std::to_string(stored), bytes_of(8000, 1))) ++stored;
  CHECK(left_bytes(cluster) < 6 * kSoftLimit / 20);
}

TEST_CASE("a shard that a node refuses goes to another one, and nothing is left over") {
  ClusterFixture cluster(6, "rs:2,1", 1, kSmall);
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  // It has told of room that is gone since; its records have what the others leave.
  std::string key;
  for (int i = 0; key.empty(); ++i) {
    const std::string candidate = "k" + std::to_string(i);
    const auto homes = cluster.homes_of(proxy, candidate);
    if (std::ranges::find(homes, 2) == homes.end()) key = candidate;
  }
  fill(cluster, 2, 100);
  for (int i = 0; i < 16; ++i) {
    // Each segment begins at another place of the ring.
    REQUIRE(cluster.put(proxy, key, bytes_of(8000, static_cast<unsigned>(i))));
    REQUIRE(cluster.get(proxy, key) == bytes_of(8000, static_cast<unsigned>(i)));
  }
  cluster.run_for(std::chrono::seconds(30));
  CHECK(cluster.shards() == 2 * 3);
  CHECK(free_bytes(cluster, 2) <= 200);
}

TEST_CASE("an object for which all nodes are too full is refused and leaves nothing behind") {
  ClusterFixture cluster(4, "rs:2,1", 1, kSmall);
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (const size_t id : {1u, 2u}) fill(cluster, id, 1000);  // 3 of 4 are needed
  const auto stored = cluster.store(proxy, StoreVerb::kSet, "k", bytes_of(4000, 1));
  REQUIRE(!stored);
  CHECK(stored.error().code == ErrorCode::kNoSpace);
  cluster.run_for(std::chrono::seconds(3));
  CHECK(cluster.shards() == 0);
}

TEST_CASE("bytes are added to a value only if every home has room for the whole of it") {
  ClusterFixture cluster(4, "rs:2,1", 1, kSmall);
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  const std::string value = bytes_of(40 << 10, 1);
  REQUIRE(cluster.put(proxy, "inline:k", value));
  // Its tail could take the added bytes, but not the new value beside the old one: the reserve's
  // last quarter is for what forgets.
  const auto tail = cluster.homes_of(proxy, "inline:k").front();
  fill(cluster, tail, 8000);
  cluster.run_for(std::chrono::seconds(1));
  const auto added = cluster.store(proxy, StoreVerb::kAppend, "inline:k", "!");
  REQUIRE(!added);
  CHECK(added.error().code == ErrorCode::kNoSpace);
  CHECK(cluster.get(proxy, "inline:k") == value);
  const auto removed = cluster.run(remove_object(proxy.ops(), "inline:k", cluster.deadline()));
  REQUIRE(removed.has_value());
  CHECK(*removed);
}

}  // namespace
}  // namespace elastripe
