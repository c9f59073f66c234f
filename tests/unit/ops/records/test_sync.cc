#include <catch2/catch.hpp>
#include <map>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/records/sync.h"
#include "server-patches/node/engine/item_formats.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::records;
using namespace elastripe::objects;
using namespace std::chrono_literals;

namespace {

using Homes = std::vector<std::vector<node::NodeId>>;  // by partition

Homes homes_now(sim::SimProxy& proxy) {
  Homes homes;
  for (const auto& partition : proxy.map().current()->partitions) homes.push_back(partition.homes);
  return homes;
}

bool is_in(const std::vector<node::NodeId>& nodes, node::NodeId id) {
  return std::ranges::find(nodes, id) != nodes.end();
}

std::string key_of(int i) { return "key" + std::to_string(i); }

// Requests by opcode, and their bytes.
struct Sent {
  size_t frames = 0;
  size_t bytes = 0;
};
using SentFrames = std::map<node::Opcode, Sent>;
void count_frames(ClusterFixture& cluster, SentFrames& sent) {
  sent.clear();
  cluster.network().set_delay_rule(
      [&sent](int, node::NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        Sent& of = sent[header.opcode];
        ++of.frames;
        of.bytes += node::kHeaderBytes + header.body_bytes;
        return std::nullopt;
      });
}

bool serves_whole_after(ClusterFixture& cluster, sim::SimProxy& proxy, uint32_t number) {
  return cluster.run_until([&] {
    const auto map = proxy.map().current();
    return map != nullptr && map->epoch.number > number && cluster.serves_whole(proxy);
  });
}

// What a home holds of the key, whether synced or not.
RecordPtr held(ClusterFixture& cluster, sim::SimProxy& proxy, node::NodeId id,
               const std::string& key) {
  const auto read = cluster.run(read_record(proxy.ops().nodes, proxy.map().current(), id,
                                            node::Role::kAny, key, 0, cluster.deadline()));
  INFO((read ? "" : to_string(read.error())));
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

TEST_CASE("a death has each record sent once to the home that lacks it") {
  ClusterFixture cluster(7, "rs:2,2");
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (int i = 0; i < 300; ++i) REQUIRE(cluster.put(proxy, key_of(i), "value"));
  const auto before = proxy.map().current();
  SentFrames sent;
  count_frames(cluster, sent);
  cluster.node(6).kill(/*silent=*/false);
  REQUIRE(serves_whole_after(cluster, proxy, before->epoch.number));
  size_t lacking = 0;
  for (int i = 0; i < 300; ++i) {
    const size_t partition = before->partition_of(key_of(i));
    for (const auto home : proxy.map().current()->partitions[partition].homes) {
      lacking += !is_in(before->partitions[partition].homes, home);
      CHECK(held(cluster, proxy, home, key_of(i)) != nullptr);
    }
  }
  REQUIRE(lacking > 0);
  CHECK(sent[node::Opcode::kRecordStore].frames == lacking);
  CHECK(sent[node::Opcode::kRecordFetch].frames <= 7 * 16);
}

TEST_CASE("a suspect that returns is sent what it missed, and no more") {
  ClusterFixture cluster(6, "rs:2,2");
  cluster.settings.tombstone_keep = 500ms;
  cluster.settings.upload_idle = 1s;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (int i = 0; i < 200; ++i) REQUIRE(cluster.put(proxy, key_of(i), "old"));
  const auto before = proxy.map().current();
  constexpr node::NodeId kAway = 2;
  cluster.node(kAway).stall();
  REQUIRE(serves_whole_after(cluster, proxy, before->epoch.number));
  size_t missed = 0;
  std::vector<int> changed, deleted;
  for (int i = 0; i < 200 && changed.size() < 4; ++i) {
    if (!is_in(before->partitions[before->partition_of(key_of(i))].homes, kAway)) continue;
    if (deleted.size() < changed.size()) {
      REQUIRE(cluster.run(remove_object(proxy.ops(), key_of(i), cluster.deadline())) == true);
      deleted.push_back(i);
    } else {
      REQUIRE(cluster.put(proxy, key_of(i), "new"));
      changed.push_back(i);
      ++missed;
    }
  }
  const bool collected = GENERATE(false, true);
  if (collected) {
    const uint64_t records = cluster.records();
    REQUIRE(cluster.run_until([&] { return cluster.records() < records; }));
    cluster.run_for(10s);
  } else {
    missed += deleted.size();
  }
  SentFrames sent;
  count_frames(cluster, sent);
  cluster.node(kAway).resume();
  REQUIRE(serves_whole_after(cluster, proxy, proxy.map().current()->epoch.number));
  CHECK(sent[node::Opcode::kRecordStore].frames == missed);
  CHECK(sent[node::Opcode::kRecordConfirm].frames > 0);
  CHECK(homes_now(proxy)[0] == before->partitions[0].homes);
  for (int i = 0; i < 200; ++i) {
    const bool is_deleted = std::ranges::find(deleted, i) != deleted.end();
    const bool is_changed = std::ranges::find(changed, i) != changed.end();
    CHECK(cluster.get(proxy, key_of(i)) == (is_deleted ? "<miss>" : is_changed ? "new" : "old"));
    if (is_deleted) continue;
    for (const auto home : cluster.homes_of(proxy, key_of(i))) {
      const RecordPtr record = held(cluster, proxy, home, key_of(i));
      REQUIRE(record != nullptr);
      CHECK(record->content.value == (is_changed ? "new" : "old"));
    }
  }
}

TEST_CASE("what was brought before the map changed is not brought again") {
  ClusterFixture cluster(7, "rs:2,2");
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (int i = 0; i < 200; ++i) REQUIRE(cluster.put(proxy, key_of(i), "value"));
  const Homes first = homes_now(proxy);
  // All is stored, and nothing marked.
  cluster.network().set_delay_rule(
      [](int, node::NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode == node::Opcode::kMarkSynced) return Duration(1h);
        return std::nullopt;
      });
  cluster.node(5).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }, 5s));
  const Homes second = homes_now(proxy);
  cluster.run_for(60s);
  SentFrames sent;
  count_frames(cluster, sent);
  cluster.node(6).kill(/*silent=*/false);
  REQUIRE(serves_whole_after(cluster, proxy, 2));
  const auto map = proxy.map().current();
  size_t lacking = 0;
  for (int i = 0; i < 200; ++i) {
    const size_t p = map->partition_of(key_of(i));
    for (const auto home : map->partitions[p].homes) {
      lacking += !is_in(first[p], home) && !is_in(second[p], home);
      CHECK(held(cluster, proxy, home, key_of(i)) != nullptr);
    }
  }
  CHECK(sent[node::Opcode::kRecordStore].frames == lacking);
}

TEST_CASE("a home that takes nothing holds up its own partitions only") {
  ClusterFixture cluster(7, "rs:2,2");
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (int i = 0; i < 200; ++i) REQUIRE(cluster.put(proxy, key_of(i), "value"));
  const Homes before = homes_now(proxy);
  constexpr node::NodeId kStuck = 0;
  cluster.network().set_delay_rule(
      [](int, node::NodeId to, const node::RequestHeader& header) -> std::optional<Duration> {
        const bool stuck = to == kStuck && header.opcode == node::Opcode::kRecordStore;
        return stuck ? std::optional<Duration>(1h) : std::nullopt;
      });
  cluster.node(6).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }, 5s));
  const Homes after = homes_now(proxy);
  uint32_t free = 0;
  for (size_t p = 0; p < after.size(); ++p) {
    free += is_in(before[p], kStuck) || !is_in(after[p], kStuck);
  }
  REQUIRE(free < after.size());
  REQUIRE(cluster.run_until([&] { return proxy.decider()->status().partitions_synced == free; }));
  cluster.run_for(20s);
  CHECK(proxy.decider()->status().partitions_synced == free);
  cluster.network().set_delay_rule({});
  CHECK(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
}

namespace {

bool is_home_or_source(const node::Partition& partition, NodeId id) {
  return std::ranges::find(partition.homes, id) != partition.homes.end() ||
         node::is_source(partition, id);
}

}  // namespace

TEST_CASE("a node that refuses holds up its own partitions only, and nothing else is marked") {
  ClusterFixture cluster(6, "rs:2,2");
  auto& decider = cluster.add_decider();
  auto& proxy = cluster.add_proxy();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(decider); }));
  for (int i = 0; i < 100; ++i) REQUIRE(cluster.put(decider, key_of(i), "value"));
  // The decider's own sync can not go on.
  cluster.network().set_delay_rule(
      [&](int from, node::NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        const bool holds = from == decider.id() && header.opcode == node::Opcode::kRecordScan;
        return holds ? std::optional<Duration>(1h) : std::nullopt;
      });
  cluster.node(5).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] {
    return decider.map().current() != nullptr && decider.map().current()->epoch.number > 1;
  }));
  const MapPtr map = decider.map().current();
  proxy.map().serve(map);
  // Another process, that the map does not know.
  decider.pause();
  cluster.node(4).kill(/*silent=*/false);
  cluster.node(4).start();
  const auto synced = cluster.run(sync_partitions(proxy.ops(), map));
  REQUIRE(!synced);
  CHECK(synced.error().code == ErrorCode::kStaleEpoch);
  const auto of_others = std::ranges::count_if(map->partitions, [](const node::Partition& p) {
    return !p.synced && !is_home_or_source(p, 4);
  });
  CHECK(of_others > 0);
  CHECK(proxy.ops().counters.partition_syncs == static_cast<uint64_t>(of_others));
  decider.resume();
  cluster.network().set_delay_rule({});
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(decider); }));
  for (int i = 0; i < 100; ++i) CHECK(cluster.get(decider, key_of(i)) == "value");
}

TEST_CASE("a frame that is lost is sent again, and ends nothing") {
  ClusterFixture cluster(6, "rs:2,2");
  auto& decider = cluster.add_decider();
  auto& proxy = cluster.add_proxy();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(decider); }));
  for (int i = 0; i < 100; ++i) REQUIRE(cluster.put(decider, key_of(i), "value"));
  std::map<node::Opcode, int> seen;
  cluster.network().set_delay_rule(
      [&](int from, node::NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        const node::Opcode opcode = header.opcode;
        const bool of_sync =
            opcode == node::Opcode::kRecordStore || opcode == node::Opcode::kRecordScan ||
            opcode == node::Opcode::kRecordFetch || opcode == node::Opcode::kMarkSynced;
        if (!of_sync || (from == proxy.id() && seen[opcode]++ >= 2)) return std::nullopt;
        return Duration(1h);
      });
  cluster.node(5).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return decider.map().current()->epoch.number > 1; }, 5s));
  proxy.map().serve(decider.map().current());
  const auto done = cluster.run(sync_partitions(proxy.ops(), proxy.map().current()));
  INFO((done ? "" : to_string(done.error())));
  CHECK(done.has_value());
  CHECK(seen[node::Opcode::kRecordStore] > 10);
  CHECK(cluster.run_until([&] { return cluster.serves_whole(decider); }, 1s));
}

namespace {

// Takes what is left of the node's memory, or gives it back.
void fill(ClusterFixture& cluster, sim::SimProxy& proxy, node::NodeId id, bool empty_again) {
  const MapPtr map = proxy.map().current();
  node::ShardDeleteRequest all;
  for (const uint32_t bytes : {4096u, 1u}) {
    for (uint32_t i = 0;; ++i) {
      node::ShardWriteRequest write;
      write.header.name = {{99, bytes}, i, 0, 0};
      write.header.key = "key";
      write.header.payload_bytes = bytes;
      all.names.push_back(write.header.name);
      if (empty_again && i > 1000) break;
      if (empty_again) continue;
      NodeRequestPtr request = make_request(write);
      add_payload(*request, std::array{Buffer::copy_of(std::string(bytes, 's'))});
      const auto reply = cluster.run(
          proxy.ops().nodes.call(id, stamp_for(*map, id), std::move(request), cluster.deadline()));
      REQUIRE(reply.has_value());
      if (reply->status() == node::Status::kNoSpace) break;
      REQUIRE(reply->status() == node::Status::kOk);
    }
  }
  if (!empty_again) return;
  const auto reply = cluster.run(
      proxy.ops().nodes.call(id, stamp_for(*map, id), make_request(all), cluster.deadline()));
  REQUIRE(reply.has_value());
  REQUIRE(reply->status() == node::Status::kOk);
}

}  // namespace

TEST_CASE("a revived key waits for room without holding anything up") {
  ClusterFixture cluster(5, "rs:2,1", 1, {.limit_bytes = 64 << 10, .reserve_bytes = 16 << 10});
  cluster.settings.upload_idle = 1h;  // nothing is reclaimed
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (const auto home : cluster.homes_of(proxy, "key")) cluster.node(home).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return proxy.map().current()->epoch.number > 1; }, 5s));
  REQUIRE(cluster.put(proxy, "key", "value"));
  const auto before = proxy.map().current();
  const auto homes = cluster.homes_of(proxy, "key");
  REQUIRE(homes.size() == 2);
  node::NodeId last = 0;
  while (!before->is_up(last) || is_in(homes, last)) ++last;
  fill(cluster, proxy, last, /*empty_again=*/false);
  cluster.node(homes[0]).kill(/*silent=*/false);
  REQUIRE(cluster.run_until(
      [&] { return proxy.map().current()->epoch.number > before->epoch.number; }, 5s));
  const auto after = cluster.homes_of(proxy, "key");
  REQUIRE(is_in(after, last));
  const auto done = cluster.run(sync_partitions(proxy.ops(), proxy.map().current()));
  REQUIRE(done.has_value());
  CHECK(done->lost_waiting == 1);
  CHECK(held(cluster, proxy, last, "key") == nullptr);
  fill(cluster, proxy, last, /*empty_again=*/true);
  const auto has_it = [&] {
    return bool(cluster.node(last).store().find(std::string(1, node::kRecordTag) + "key"));
  };
  CHECK(cluster.run_until(has_it));
}
