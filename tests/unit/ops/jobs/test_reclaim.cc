#include <catch2/catch.hpp>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/jobs/reclaim.h"
#include "proxy/ops/shards.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

namespace {

const std::string kBig(300, 'x');  // striped: above inline_max_bytes

// A shard of a write that never committed, on some node.
bool write_orphan(ClusterFixture& cluster, sim::SimProxy& proxy, const std::string& key,
                  uint64_t txid, uint32_t segment = 0) {
  const auto map = proxy.map().current();
  node::ShardWriteRequest message;
  message.header.name.txid = {7, txid};
  message.header.name.segment = segment;
  message.header.key = key;
  message.header.payload_bytes = 3;
  NodeRequestPtr request = make_request(message);
  const Buffer bytes = Buffer::copy_of("abc");
  request->payload.push_back(bytes.bytes());
  request->keep.push_back(bytes);
  const auto reply = cluster.run(
      proxy.ops().nodes.call(0, stamp_for(*map, 0), std::move(request), cluster.deadline()));
  return reply.has_value() && reply->status() == node::Status::kOk;
}

struct Serving {
  explicit Serving(const std::string& scheme = "rs:2,1") : cluster(5, scheme) {
    // The decider's own rounds would be in the way of those that a test asks for.
    cluster.settings.upload_idle = 30s;
    proxy = &cluster.add_proxy();
    auto& decider = cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(decider); }));
    proxy->map().serve(decider.map().current());
  }
  Result<ReclaimReport> round(Reclaimer& reclaimer) {
    const std::vector<bool> synced(ClusterFixture::kPartitions, true);
    return cluster.run(reclaimer.round(proxy->map().current(), synced));
  }
  ClusterFixture cluster;
  sim::SimProxy* proxy = nullptr;
};

}  // namespace

TEST_CASE("shards of an abandoned write are deleted once they are old, others stay") {
  Serving s;
  REQUIRE(s.cluster.put(*s.proxy, "kept", kBig));
  const uint64_t kept = s.cluster.shards();
  REQUIRE(kept == 3);
  REQUIRE(write_orphan(s.cluster, *s.proxy, "kept", 1));
  REQUIRE(write_orphan(s.cluster, *s.proxy, "never", 2));
  s.cluster.run_for(80s);
  CHECK(s.cluster.shards() == kept + 2);
  REQUIRE(s.cluster.run_until([&] { return s.cluster.shards() == kept; }, 240s));
  CHECK(s.cluster.get(*s.proxy, "kept") == kBig);
  s.cluster.run_for(60s);
  CHECK(s.cluster.shards() == kept);
}

TEST_CASE("a young shard of an upload keeps its other ones: it may be going on") {
  Serving s;
  REQUIRE(write_orphan(s.cluster, *s.proxy, "upload", 1));
  for (uint32_t i = 1; i < 25; ++i) {
    s.cluster.run_for(10s);
    REQUIRE(write_orphan(s.cluster, *s.proxy, "upload", 1, i));
    CHECK(s.cluster.shards() == i + 1);
  }
}

TEST_CASE("a key that is written again and again does not keep what was abandoned") {
  Serving s;
  REQUIRE(write_orphan(s.cluster, *s.proxy, "key", 1));
  const auto orphan_is_here = [&] {
    const auto map = s.proxy->map().current();
    node::ShardConfirmRequest message{{node::ShardName{.txid = {7, 1}}}, false};
    const auto reply = s.cluster.run(s.proxy->ops().nodes.call(
        0, stamp_for(*map, 0), make_request(message), s.cluster.deadline()));
    return node::decode<node::ShardConfirmReply>(reply.value().args()).value().entries[0].present;
  };
  for (int i = 0; i < 13; ++i) {
    if (i < 9) REQUIRE(orphan_is_here());
    REQUIRE(s.cluster.put(*s.proxy, "key", kBig));
    s.cluster.run_for(10s);
  }
  CHECK_FALSE(orphan_is_here());
  CHECK(s.cluster.get(*s.proxy, "key") == kBig);
}

TEST_CASE("a node that does not list its shards keeps only its own") {
  Serving s;
  REQUIRE(s.cluster.put(*s.proxy, "kept", kBig));
  REQUIRE(write_orphan(s.cluster, *s.proxy, "never", 1));
  s.cluster.network().set_delay_rule([&](int, NodeId to, const node::RequestHeader& header) {
    const bool is_silent = to == 4 && header.opcode == node::Opcode::kShardScan;
    return is_silent ? std::optional<Duration>(10s) : std::nullopt;
  });
  s.cluster.run_for(150s);
  CHECK(s.cluster.shards() == 3);
}

TEST_CASE("while more nodes are silent than the scheme survives, nothing is taken for abandoned") {
  Serving s;
  REQUIRE(write_orphan(s.cluster, *s.proxy, "never", 1));
  s.cluster.network().set_delay_rule([&](int, NodeId to, const node::RequestHeader& header) {
    const bool is_silent = to >= 3 && header.opcode == node::Opcode::kShardScan;
    return is_silent ? std::optional<Duration>(10s) : std::nullopt;
  });
  s.cluster.run_for(200s);
  CHECK(s.cluster.shards() == 1);
}

TEST_CASE("what was superseded goes after its grace though its proxy has died") {
  Serving s;
  REQUIRE(s.cluster.put(*s.proxy, "key", kBig));
  REQUIRE(s.cluster.put(*s.proxy, "key", kBig));
  s.cluster.run_for(2 * kDeletionBatch);
  s.proxy->kill();
  CHECK(s.cluster.shards() == 6);
  s.cluster.run_for(s.cluster.settings.read_grace + 1s);
  CHECK(s.cluster.shards() == 3);
}

TEST_CASE("partitions that are synced are reclaimed while others are not") {
  Serving s;
  const auto homes = s.cluster.homes_of(*s.proxy, "never");
  NodeId dead = 1;  // no home of it, and not the one that the orphan is on
  while (std::ranges::find(homes, dead) != homes.end()) ++dead;
  REQUIRE(write_orphan(s.cluster, *s.proxy, "never", 1));
  s.cluster.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    const bool ends_sync = header.opcode == node::Opcode::kMarkSynced;
    return ends_sync ? std::optional<Duration>(10s) : std::nullopt;
  });
  s.cluster.node(dead).kill(/*silent=*/false);
  s.cluster.run_for(130s);
  CHECK(s.cluster.shards() == 0);
}

TEST_CASE("an expired object loses its record and its shards") {
  Serving s;
  const auto soon = static_cast<uint32_t>(s.proxy->clock().unix_ms() / 1000 + 5);
  REQUIRE(s.cluster.put(*s.proxy, "brief", kBig, soon));
  REQUIRE(s.cluster.shards() == 3);
  REQUIRE(s.cluster.run_until([&] { return s.cluster.shards() == 0 && s.cluster.records() == 0; },
                              300s));
  CHECK(s.cluster.get(*s.proxy, "brief") == "<miss>");
}

namespace {

struct Rates {
  int failed = 0;
  int left = 0;
};

Task<void> store(sim::SimProxy& proxy, std::string key, std::string value, uint32_t exptime,
                 TimePoint deadline, Rates* rates) {
  StoreRequest request;
  request.key = key;
  request.exptime = exptime;
  const auto stored = co_await store_value(proxy.ops(), request, value, deadline);
  if (!stored || *stored != StoreStatus::kStored) ++rates->failed;
  --rates->left;
}

// Many at a time.
void store_many(Serving& s, int count, const std::string& value, uint32_t exptime) {
  Rates rates;
  Scope scope;
  for (int i = 0; i < count; ++i) {
    ++rates.left;
    scope.spawn(
        store(*s.proxy, fmt::format("key{}", i), value, exptime, s.cluster.deadline(), &rates));
    if (rates.left == 50) s.cluster.run_until([&] { return rates.left < 25; });
  }
  REQUIRE(s.cluster.run_until([&] { return rates.left == 0; }));
  REQUIRE(rates.failed == 0);
}

// Looks once a second: to count all items takes its time.
template <class Condition>
bool comes_true(Serving& s, Duration limit, Condition condition) {
  for (Duration waited{0}; waited < limit && !condition(); waited += 1s) s.cluster.run_for(1s);
  return condition();
}

}  // namespace

TEST_CASE("thousands of objects that expire together are gone within half a minute of the grace") {
  Serving s;
  const auto soon = static_cast<uint32_t>(s.proxy->clock().unix_ms() / 1000 + 20);
  store_many(s, 2000, kBig, soon);
  REQUIRE(s.cluster.shards() == 6000);
  s.cluster.run_for(20s);
  const OpsSettings& settings = s.cluster.settings;
  CHECK(comes_true(s, settings.read_grace + 30s, [&] { return s.cluster.shards() == 0; }));
  CHECK(comes_true(s, settings.tombstone_keep + 30s, [&] { return s.cluster.records() == 0; }));
}

TEST_CASE("inline objects that expire are dropped without a commit each") {
  Serving s;
  const auto soon = static_cast<uint32_t>(s.proxy->clock().unix_ms() / 1000 + 20);
  store_many(s, 2000, "small", soon);
  int commits = 0;
  s.cluster.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    commits += header.opcode == node::Opcode::kRecordApply;
    return std::optional<Duration>();
  });
  s.cluster.run_for(50s);
  CHECK(s.cluster.records() == 4000);
  CHECK(comes_true(s, 40s, [&] { return s.cluster.records() == 0; }));
  CHECK(commits == 0);
  REQUIRE(s.cluster.put(*s.proxy, "key1", "again"));
  CHECK(s.cluster.get(*s.proxy, "key1") == "again");
}

TEST_CASE("nothing is destroyed while the wall clock has been set forward for a while") {
  Serving s;
  auto& clock = s.proxy->clock();
  const auto later = static_cast<uint32_t>(clock.unix_ms() / 1000 + 1800);
  REQUIRE(s.cluster.put(*s.proxy, "key", kBig, later));
  REQUIRE(s.cluster.put(*s.proxy, "small", "inline", later));
  ExpiryClock reclaimer_clock(s.proxy->ops().clock);
  Reclaimer reclaimer(s.proxy->ops(), reclaimer_clock);
  if (GENERATE(true, false)) {  // else before the first round
    REQUIRE(s.round(reclaimer).has_value());
    s.cluster.run_for(61s);
  }
  clock.set_wall_clock_by(1h);
  CHECK(s.cluster.get(*s.proxy, "key") == "<miss>");
  for (int i = 0; i < 3; ++i) {
    CHECK(s.round(reclaimer).value().records_expired == 0);
    s.cluster.run_for(60s);
  }
  clock.set_wall_clock_by(-1h);
  CHECK(s.round(reclaimer).value().records_expired == 0);
  CHECK(s.cluster.get(*s.proxy, "key") == kBig);
  CHECK(s.cluster.get(*s.proxy, "small") == "inline");

  // Nobody sets it back: it must be right.
  clock.set_wall_clock_by(1h);
  CHECK(s.round(reclaimer).value().records_expired == 0);
  s.cluster.run_for(ExpiryClock::kDistrust);
  CHECK(s.round(reclaimer).value().records_expired == 2);
}

TEST_CASE("tombstones are kept for a while, then dropped, and what follows is above them") {
  Serving s("rs:2,2");
  REQUIRE(s.cluster.put(*s.proxy, "key", "one"));
  REQUIRE(s.cluster.run(remove_object(s.proxy->ops(), "key", s.cluster.deadline())).value());
  s.cluster.run_for(30s);
  CHECK(s.cluster.records() == 3);
  REQUIRE(s.cluster.run_until([&] { return s.cluster.records() == 0; }, 120s));
  CHECK(s.cluster.get(*s.proxy, "key") == "<miss>");
  REQUIRE(s.cluster.put(*s.proxy, "key", "two"));
  CHECK(s.cluster.get(*s.proxy, "key") == "two");
}

TEST_CASE("tombstones are as old as they are, whoever collects them") {
  Serving s("rs:2,2");
  s.proxy->ops().settings.tombstone_keep = 10s;
  REQUIRE(s.cluster.put(*s.proxy, "key", "one"));
  REQUIRE(s.cluster.run(remove_object(s.proxy->ops(), "key", s.cluster.deadline())).value());
  ExpiryClock early_clock(s.proxy->ops().clock);
  Reclaimer early(s.proxy->ops(), early_clock);
  CHECK(s.round(early).value().tombstones_dropped == 0);
  s.cluster.run_for(12s);
  ExpiryClock successor_clock(s.proxy->ops().clock);
  Reclaimer successor(s.proxy->ops(), successor_clock);
  CHECK(s.round(successor).value().tombstones_dropped == 1);
  CHECK(s.cluster.records() == 0);
}

TEST_CASE("orphans of a key without a record go although a RAISE_FLOOR was cut short") {
  Serving s("rs:2,2");
  REQUIRE(write_orphan(s.cluster, *s.proxy, "never", 1));
  const auto map = s.proxy->map().current();
  const Chain chain = chain_of(*map, "never");
  const node::RaiseFloorRequest raise{static_cast<uint32_t>(chain.partition),
                                      map->version_floor + 9};
  const auto raised = s.cluster.run(s.proxy->ops().nodes.call(
      chain.head(), stamp_for(*map, chain.head()), make_request(raise), s.cluster.deadline()));
  REQUIRE(raised.has_value());
  REQUIRE(raised->status() == node::Status::kOk);
  REQUIRE(s.cluster.run_until([&] { return s.cluster.shards() == 0; }, 240s));
  REQUIRE(s.cluster.put(*s.proxy, "never", kBig));
  CHECK(s.cluster.get(*s.proxy, "never") == kBig);
}

namespace {

// "key", and another one of its partition.
std::string sibling_of_key(const node::ClusterMap& map) {
  for (int i = 0;; ++i) {
    std::string other = "key" + std::to_string(i);
    if (map.partition_of(other) == map.partition_of("key")) return other;
  }
}

Task<void> create_and_delete(sim::SimProxy& proxy, TimePoint deadline, bool* done) {
  StoreRequest request;
  request.key = "key";
  const auto stored = co_await store_value(proxy.ops(), request, "again", deadline);
  const auto removed = co_await remove_object(proxy.ops(), "key", deadline);
  *done = stored.has_value() && removed.has_value() && *removed;
}

}  // namespace

TEST_CASE("a key that is deleted again during a round keeps its new tombstone for as long as any") {
  Serving s("rs:2,2");
  // These are for this test's rounds, not the decider's; each of them drops what is due.
  s.proxy->ops().settings.tombstone_keep = 10s;
  s.proxy->ops().settings.upload_idle = 1s;
  const std::string sibling = sibling_of_key(*s.proxy->map().current());
  const auto remove = [&](const std::string& key) {
    return s.cluster.run(remove_object(s.proxy->ops(), key, s.cluster.deadline())).value();
  };
  REQUIRE(s.cluster.put(*s.proxy, "key", "one"));
  REQUIRE(remove("key"));
  for (int i = 0; i < 9; ++i) REQUIRE(s.cluster.put(*s.proxy, sibling, "one"));
  REQUIRE(remove(sibling));  // of a higher version than anything of "key" below
  ExpiryClock reclaimer_clock(s.proxy->ops().clock);
  Reclaimer reclaimer(s.proxy->ops(), reclaimer_clock);
  REQUIRE(s.round(reclaimer).value().tombstones_dropped == 0);
  REQUIRE(s.cluster.records() == 6);

  // Between what the round has read and what it drops.
  s.cluster.run_for(11s);
  Scope scope;
  bool done = false;
  bool started = false;
  s.cluster.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    if (header.opcode != node::Opcode::kRaiseFloor) return std::optional<Duration>();
    if (!started) scope.spawn(create_and_delete(*s.proxy, s.cluster.deadline(), &done));
    started = true;
    return std::optional<Duration>(500ms);
  });
  REQUIRE(s.round(reclaimer).has_value());
  s.cluster.network().set_delay_rule(nullptr);
  REQUIRE(done);
  CHECK(s.cluster.records() == 3);

  CHECK(s.round(reclaimer).value().tombstones_dropped == 0);
  s.cluster.run_for(9s);
  CHECK(s.round(reclaimer).value().tombstones_dropped == 0);
  CHECK(s.cluster.records() == 3);
  s.cluster.run_for(2s);
  CHECK(s.round(reclaimer).value().tombstones_dropped == 1);
  CHECK(s.cluster.records() == 0);
  CHECK(s.cluster.get(*s.proxy, "key") == "<miss>");
}

TEST_CASE("a round under a map that is over says so") {
  Serving s;
  REQUIRE(s.cluster.put(*s.proxy, "key", kBig));
  ExpiryClock reclaimer_clock(s.proxy->ops().clock);
  Reclaimer reclaimer(s.proxy->ops(), reclaimer_clock);
  auto& next = s.cluster.add_decider();
  REQUIRE(s.cluster.run_until([&] { return s.cluster.serves_whole(next); }, 20s));
  const auto report = s.round(reclaimer);
  REQUIRE(!report);
  CHECK(report.error().code == ErrorCode::kStaleEpoch);
}
