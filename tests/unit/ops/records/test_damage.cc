// Memory of a node that fails: objects are read right, and damaged copies replaced, as long as one
// home has the record intact; else they are lost, never wrong and never missing.
#include <array>
#include <catch2/catch.hpp>

#include "proxy/cluster/record_chain.h"
#include "server-patches/node/engine/item_formats.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace std::chrono_literals;

namespace {

class Cluster : public ClusterFixture {
 public:
  Cluster() : ClusterFixture(6, "rs:2,2"), proxy(add_decider()) {
    REQUIRE(run_until([&] { return serves_whole(proxy); }));
  }

  std::vector<NodeId> homes(const std::string& key) { return homes_of(proxy, key); }

  void damage(NodeId at, const std::string& key) {
    node::ArenaStore& store = node(at).store();
    const node::ItemRef item = store.find(node::record_item_key(key));
    REQUIRE(item);
    // The bit is one of the value_version. Had it been of the version, nobody would know that
    // either.
    const size_t at_byte = node::kRecordPrefixBytes + sizeof(uint64_t);
    std::array<std::byte, 1> changed;
    store.read(item, at_byte, changed);
    changed[0] ^= std::byte{4};
    store.write(item, at_byte, changed);
  }

  // What the home has, whole.
  RecordPtr held(NodeId at, const std::string& key) {
    const auto read = run(read_record(proxy.ops().nodes, proxy.map().current(), at,
                                      node::Role::kAny, key, 0, deadline()));
    REQUIRE(read.has_value());
    return read->status == node::Status::kBadPage ? nullptr : read->record;
  }
  bool is_whole(const std::string& key) {
    RecordPtr newest;
    for (const NodeId home : homes(key)) {
      const RecordPtr record = held(home, key);
      if (record == nullptr) return false;
      if (newest != nullptr && record->meta.version != newest->meta.version) return false;
      newest = record;
    }
    return true;
  }

  Result<StoreOutcome> store(StoreVerb verb, const std::string& key, const std::string& value) {
    StoreRequest request;
    request.verb = verb;
    request.key = key;
    return run(store_value(proxy.ops(), request, value, deadline()));
  }
  bool append(const std::string& key, const std::string& value) {
    const auto stored = store(StoreVerb::kAppend, key, value);
    return stored.has_value() && *stored == StoreStatus::kStored;
  }

  sim::SimProxy& proxy;
};

Task<void> keep(Task<Result<StoreOutcome>> flow, std::optional<Result<StoreOutcome>>* result) {
  result->emplace(co_await std::move(flow));
}

}  // namespace

TEST_CASE("a damaged copy is mended from the other homes by whoever needs it") {
  Cluster cluster;
  const std::string value = GENERATE(std::string("small"), std::string(3000, 'l'));
  REQUIRE(cluster.put(cluster.proxy, "key", value));
  const auto homes = cluster.homes("key");
  REQUIRE(homes.size() == 3);
  SECTION("the tail, by a GET") {
    cluster.damage(homes[0], "key");
    CHECK(cluster.get(cluster.proxy, "key") == value);
    CHECK(cluster.is_whole("key"));
  }
  SECTION("the tail, whose record the proxy has in its cache") {
    CHECK(cluster.get(cluster.proxy, "key") == value);
    cluster.damage(homes[0], "key");
    CHECK(cluster.get(cluster.proxy, "key") == value);
    CHECK(cluster.is_whole("key"));
  }
  SECTION("the head, by an APPEND") {
    cluster.damage(homes[2], "key");
    CHECK(cluster.get(cluster.proxy, "key") == value);
    CHECK(cluster.append("key", "+"));
    CHECK(cluster.get(cluster.proxy, "key") == value + "+");
    CHECK(cluster.is_whole("key"));
  }
  SECTION("the middle, at the latest when it becomes the tail") {
    cluster.damage(homes[1], "key");
    CHECK(cluster.append("key", "+"));
    cluster.node(homes[0]).kill(/*silent=*/false);
    REQUIRE(cluster.run_until([&] { return !cluster.proxy.map().current()->is_up(homes[0]); }));
    CHECK(cluster.get(cluster.proxy, "key") == value + "+");
  }
  SECTION("two of three") {
    cluster.damage(homes[0], "key");
    cluster.damage(homes[2], "key");
    CHECK(cluster.get(cluster.proxy, "key") == value);
    CHECK(cluster.append("key", "+"));
    CHECK(cluster.get(cluster.proxy, "key") == value + "+");
    CHECK(cluster.is_whole("key"));
  }
}

TEST_CASE("a deleted key whose tombstone is damaged stays deleted") {
  Cluster cluster;
  REQUIRE(cluster.put(cluster.proxy, "key", "value"));
  const auto removed = cluster.run(remove_object(cluster.proxy.ops(), "key", cluster.deadline()));
  REQUIRE(removed.has_value());
  for (const NodeId home : cluster.homes("key")) {
    cluster.damage(home, "key");
    CHECK(cluster.get(cluster.proxy, "key") == "<miss>");
    const auto added = cluster.store(StoreVerb::kReplace, "key", "other");
    REQUIRE(added.has_value());
    CHECK(*added == StoreStatus::kNotStored);
  }
}

TEST_CASE("a record that is damaged at every home is lost until a SET") {
  Cluster cluster;
  const std::string value = GENERATE(std::string("small"), std::string(3000, 'l'));
  REQUIRE(cluster.put(cluster.proxy, "key", value));
  for (const NodeId home : cluster.homes("key")) cluster.damage(home, "key");
  CHECK(cluster.get(cluster.proxy, "key").starts_with("lost"));
  for (const StoreVerb verb : {StoreVerb::kAdd, StoreVerb::kReplace, StoreVerb::kAppend}) {
    const auto stored = cluster.store(verb, "key", "+");
    REQUIRE(!stored);
    CHECK(stored.error().code == ErrorCode::kLost);
  }
  CHECK(cluster.get(cluster.proxy, "key").starts_with("lost"));
  CHECK(cluster.put(cluster.proxy, "key", "new " + value));
  CHECK(cluster.get(cluster.proxy, "key") == "new " + value);
  CHECK(cluster.append("key", "+"));
  CHECK(cluster.get(cluster.proxy, "key") == "new " + value + "+");
  CHECK(cluster.is_whole("key"));
}

TEST_CASE("a record that is lost by damage holds up no other of its partition") {
  Cluster cluster;
  REQUIRE(cluster.put(cluster.proxy, "key", "value"));
  const auto homes = cluster.homes("key");
  cluster.damage(homes[0], "key");
  cluster.damage(homes[1], "key");
  cluster.node(homes[2]).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return !cluster.proxy.map().current()->is_up(homes[2]); }));
  CHECK(cluster.get(cluster.proxy, "key").starts_with("lost"));
  SECTION("once all is synced") {
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(cluster.proxy); }));
    CHECK(cluster.get(cluster.proxy, "key").starts_with("lost"));
  }
  SECTION("before") {}
  CHECK(cluster.put(cluster.proxy, "key", "new"));
  CHECK(cluster.get(cluster.proxy, "key") == "new");
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(cluster.proxy); }));
  CHECK(cluster.get(cluster.proxy, "key") == "new");
  CHECK(cluster.is_whole("key"));
}

namespace {

// Two of three homes have died, one after the other, and the one that is left is the only source.
struct OnlySource : Cluster {
  OnlySource() {
    REQUIRE(put(proxy, "key", "old"));
    REQUIRE(put(proxy, "key", "newest"));
    source = homes("key")[0];
    // The sweep brings records, and marks nothing.
    network().set_delay_rule(
        [](int, node::NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
          const bool marks = header.opcode == node::Opcode::kMarkSynced;
          return marks ? std::optional<Duration>(1h) : std::nullopt;
        });
    for (const NodeId home : {homes("key")[1], homes("key")[2]}) {
      node(home).kill(/*silent=*/false);
      REQUIRE(run_until([&] { return !proxy.map().current()->is_up(home); }));
    }
  }
  size_t copies() {
    return static_cast<size_t>(std::ranges::count_if(
        homes("key"), [&](NodeId home) { return held(home, "key") != nullptr; }));
  }
  NodeId source = 0;
};

}  // namespace

TEST_CASE("what sync has brought counts when the source's copy is damaged afterwards") {
  OnlySource cluster;
  REQUIRE(cluster.run_until([&] { return cluster.copies() == 3; }));
  cluster.damage(cluster.source, "key");
  cluster.network().set_delay_rule({});
  CHECK(cluster.get(cluster.proxy, "key") == "newest");
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(cluster.proxy); }));
  CHECK(cluster.get(cluster.proxy, "key") == "newest");
  CHECK(cluster.is_whole("key"));
}

TEST_CASE("a source does not vouch for what was committed at homes that are damaged") {
  OnlySource cluster;
  REQUIRE(cluster.run_until([&] { return cluster.copies() == 3; }));
  // All homes but the source that is one of them; it still has the version that they had.
  for (const NodeId home : cluster.homes("key")) {
    if (home != cluster.source) cluster.damage(home, "key");
  }
  cluster.network().set_delay_rule({});
  CHECK(cluster.get(cluster.proxy, "key") == "newest");
  CHECK(cluster.is_whole("key"));
}

TEST_CASE("a commit that its head has forgotten is not acknowledged once another has followed") {
  Cluster cluster;
  REQUIRE(cluster.put(cluster.proxy, "key", "one"));
  const auto homes = cluster.homes("key");
  // One proxy's stores take their time.
  sim::SimProxy& slow = cluster.add_proxy();
  slow.map().serve(cluster.proxy.map().current());
  bool is_committed = false;
  cluster.network().watch_commits(
      [&](int, NodeId, uint32_t, const node::Record*) { is_committed = true; });
  cluster.network().set_delay_rule(
      [](int proxy, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (proxy != 1 || header.opcode != node::Opcode::kRecordStore) return std::nullopt;
        return 800ms;
      });
  Scope scope;
  std::optional<Result<StoreOutcome>> outcome;
  StoreRequest request;
  request.verb = StoreVerb::kAppend;
  request.key = "key";
  scope.spawn(keep(store_value(slow.ops(), request, " two", cluster.deadline()), &outcome));
  REQUIRE(cluster.run_until([&] { return is_committed; }));
  cluster.damage(homes[2], "key");
  CHECK(cluster.get(cluster.proxy, "key") == "one");
  CHECK(cluster.append("key", " three"));
  CHECK(cluster.get(cluster.proxy, "key") == "one three");
  REQUIRE(cluster.run_until([&] { return outcome.has_value(); }));
  CHECK(!*outcome);
  CHECK(cluster.get(cluster.proxy, "key") == "one three");
  CHECK(cluster.is_whole("key"));
}

TEST_CASE("a damaged record holds up neither sync nor what is synced with it") {
  Cluster cluster;
  std::vector<std::string> keys;
  for (int i = 0; i < 60; ++i) keys.push_back("key" + std::to_string(i));
  for (const std::string& key : keys) REQUIRE(cluster.put(cluster.proxy, key, key));
  for (const std::string& key : keys) cluster.damage(cluster.homes(key)[1], key);
  cluster.node(0).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return !cluster.proxy.map().current()->is_up(0); }));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(cluster.proxy); }));
  for (const std::string& key : keys) CHECK(cluster.get(cluster.proxy, key) == key);
}

TEST_CASE("the only copies of a crashed home's records are lost with their bytes, not replaced") {
  Cluster cluster;
  REQUIRE(cluster.put(cluster.proxy, "key", "value"));
  const auto homes = cluster.homes("key");
  cluster.damage(homes[1], "key");
  cluster.damage(homes[2], "key");
  cluster.node(homes[0]).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return !cluster.proxy.map().current()->is_up(homes[0]); }));
  CHECK(cluster.get(cluster.proxy, "key").starts_with("lost"));
  cluster.run_for(10s);
  CHECK(cluster.get(cluster.proxy, "key").starts_with("lost"));
}
