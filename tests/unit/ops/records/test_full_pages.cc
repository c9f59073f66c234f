// Scans with more than a page holds: what is too large for one and named only, and pages that end
// inside a bucket.
#include <catch2/catch.hpp>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/jobs/reclaim.h"
#include "proxy/ops/records/commit.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::records;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

namespace {

// Keys of the partition of "key0": they share their homes, so their pages too.
std::vector<std::string> keys_of_one_partition(const node::ClusterMap& map, size_t count) {
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < count; ++i) {
    std::string key = "key" + std::to_string(i);
    if (map.partition_of(key) == map.partition_of("key0")) keys.push_back(std::move(key));
  }
  return keys;
}

bool commits(ClusterFixture& cluster, sim::SimProxy& proxy, Commit commit) {
  const auto result = cluster.run(commit_record(proxy.ops(), commit, cluster.deadline()));
  return result.has_value() && result->status == CommitStatus::kCommitted;
}

}  // namespace

TEST_CASE("records that do not fit in a page are synced") {
  constexpr size_t kBytes = 7'000'000;
  ClusterFixture cluster(5, "rs:2,1", 1, {.limit_bytes = 64 << 20});
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  const auto before = proxy.map().current();
  const auto keys = keys_of_one_partition(*before, 3);
  for (const std::string& key : keys) {
    Commit set;
    set.key = key;
    set.content.kind = node::RecordKind::kInline;
    set.content.value = std::string(kBytes, 'v');
    set.content.size = set.content.value.size();
    REQUIRE(commits(cluster, proxy, std::move(set)));
  }
  const size_t partition = before->partition_of("key0");
  size_t fetches = 0;
  cluster.network().set_delay_rule(
      [&](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        fetches += header.opcode == node::Opcode::kRecordFetch;
        return std::nullopt;
      });
  cluster.node(before->partitions[partition].homes[0]).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }, 5s));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
  CHECK(fetches == keys.size());
  const auto map = proxy.map().current();
  for (const NodeId home : map->partitions[partition].homes) {
    for (const std::string& key : keys) {
      const auto read = cluster.run(
          read_record(proxy.ops().nodes, map, home, node::Role::kAny, key, 0, cluster.deadline()));
      REQUIRE(read.has_value());
      REQUIRE(read->record != nullptr);
      CHECK(read->record->content.size == kBytes);
    }
  }
}

TEST_CASE("tombstones of buckets that do not fit in a page are as old as the others") {
  ClusterFixture cluster;
  sim::SimProxy& proxy = cluster.add_proxy();
  sim::SimProxy& decider = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(decider); }));
  proxy.map().serve(decider.map().current());
  // These are for this test's rounds, not the decider's; each of them drops what is due.
  proxy.ops().settings.tombstone_keep = 40s;
  proxy.ops().settings.upload_idle = 0s;
  const auto keys = keys_of_one_partition(*proxy.map().current(), 4000);
  for (const std::string& key : keys) {
    Commit fence;  // of a missing record: leaves a tombstone
    fence.key = key;
    fence.mutation = node::Mutation::kFence;
    REQUIRE(commits(cluster, proxy, std::move(fence)));
  }
  ExpiryClock reclaimer_clock(proxy.ops().clock);
  Reclaimer reclaimer(proxy.ops(), reclaimer_clock);
  const auto round = [&] {
    const std::vector<bool> synced(ClusterFixture::kPartitions, true);
    return cluster.run(reclaimer.round(proxy.map().current(), synced)).value().tombstones_dropped;
  };
  REQUIRE(round() == 0);
  cluster.run_for(41s);
  uint64_t dropped = 0;
  for (int i = 0; i < 4; ++i) dropped += round();
  CHECK(dropped == keys.size());
  CHECK(cluster.records() == 0);
}
