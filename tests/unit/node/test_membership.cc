// The gate, the lease and maps: rules 1-4.
#include <bit>

#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

Reply read_with(TestNode& node, const std::function<void(RequestHeader&)>& change) {
  return node.send(Opcode::kRecordRead,
                   encoded(RecordReadRequest{.role = Role::kAny, .m = 2, .key = "key"}), {},
                   change);
}

}  // namespace

TEST_CASE("a data frame of another cluster, epoch or incarnation is refused") {
  TestNode node;
  REQUIRE(status(read_with(node, {})) == "NOT_FOUND");
  REQUIRE(status(read_with(node, [](auto& h) { h.cluster_id = 1; })) == "STALE_EPOCH");
  REQUIRE(status(read_with(node, [](auto& h) { h.epoch.number = 2; })) == "STALE_EPOCH");
  REQUIRE(status(read_with(node, [](auto& h) { h.epoch.decider = 2; })) == "STALE_EPOCH");
  REQUIRE(status(read_with(node, [](auto& h) { h.epoch.map_hash ^= 1; })) == "STALE_EPOCH");
  REQUIRE(status(read_with(node, [](auto& h) { h.incarnation = 1; })) == "STALE_EPOCH");
  const Reply reply = read_with(node, [](auto& h) { h.epoch.number = 2; });
  REQUIRE(reply.header.epoch == node.map.epoch);
  REQUIRE(reply.header.incarnation == kOwnIncarnation);
  REQUIRE_FALSE(payload_of(reply).empty());
}

TEST_CASE("a node without a map, or that the map does not name as up, is joining") {
  ArenaStore store({});
  FakeClock clock;
  Engine engine({.incarnation = 5}, store, clock);
  Frame frame;
  const std::string args = encoded(RecordReadRequest{.key = "key"});
  frame.header.opcode = Opcode::kRecordRead;
  frame.header.incarnation = 5;
  frame.header.args_bytes = frame.header.body_bytes = static_cast<uint32_t>(args.size());
  frame.args = as_view(args);
  const Reply reply = engine.serve(frame);
  REQUIRE(status(reply) == "JOINING");

  TestNode node;
  ClusterMap next = make_map(2, {1, 2, 3});
  SECTION("another incarnation") { next.nodes[0].incarnation = 1; }
  SECTION("suspect") { next.nodes[0].state = NodeState::kSuspect; }
  node.install(next);
  node.grant();
  REQUIRE(status(read_with(node, {})) == "JOINING");
}

TEST_CASE("the lease ends on the node's own clock, whatever the heartbeat's delay") {
  TestNode node;  // granted until 5000 + 3000
  node.clock.now_ms = 7999;
  REQUIRE(status(read_with(node, {})) == "NOT_FOUND");
  REQUIRE(node.stat("lease_left_ms") == 1);
  node.clock.now_ms = 8000;
  REQUIRE(status(read_with(node, {})) == "NO_LEASE");
  SECTION("a delayed heartbeat does not lengthen it") {
    REQUIRE(status(node.heartbeat(5000, 3000)) == "OK");
    REQUIRE(status(read_with(node, {})) == "NO_LEASE");
  }
  SECTION("a heartbeat that only asks grants nothing") {
    REQUIRE(status(node.heartbeat(0, 1'000'000)) == "OK");
    REQUIRE(status(read_with(node, {})) == "NO_LEASE");
  }
  SECTION("the clock of the previous reply does") {
    const HelloReply reply = args_of<HelloReply>(node.heartbeat(0, 3000));
    REQUIRE(reply.clock_ms == 8000);
    REQUIRE_FALSE(reply.has_lease);
    node.clock.now_ms = 9000;
    REQUIRE(args_of<HelloReply>(node.heartbeat(reply.clock_ms, 3000)).has_lease);
    REQUIRE(node.stat("lease_left_ms") == 2000);
  }
  SECTION("a stamp from the future counts as now") {
    node.heartbeat(1'000'000'000, 3000);
    REQUIRE(node.stat("lease_left_ms") == 3000);
  }
  SECTION("a shorter grant takes nothing back") {
    node.heartbeat(8000, 3000);
    node.heartbeat(8000, 1);
    REQUIRE(node.stat("lease_left_ms") == 3000);
  }
}

TEST_CASE("a map that the sender knows is not sent again") {
  TestNode node;
  const auto ask = [&](uint64_t known) {
    return node.send(Opcode::kHello, encoded(HelloRequest{.known_map = known}));
  };
  REQUIRE(payload_of(ask(0)) == payload_of(node.send(Opcode::kHello, {})));
  REQUIRE_FALSE(payload_of(ask(node.map.epoch.map_hash + 1)).empty());
  const Reply known = ask(node.map.epoch.map_hash);
  REQUIRE(payload_of(known).empty());
  REQUIRE(known.header.epoch == node.map.epoch);
  REQUIRE(args_of<HelloReply>(known).has_lease);
}

TEST_CASE("a heartbeat tells synced partitions to those who know of fewer") {
  TestNode node;
  const std::vector<uint8_t> synced = node.hello().synced;
  uint32_t count = 0;
  for (const uint8_t bits : synced) count += static_cast<uint32_t>(std::popcount(bits));
  REQUIRE(count > 0);
  const auto told = [&](const std::string& args) {
    const Reply reply = node.send(Opcode::kHeartbeat, args);
    REQUIRE(status(reply) == "OK");
    return args_of<HelloReply>(reply).synced;
  };
  const auto told_who_knows = [&](uint32_t known) {
    return told(encoded(HeartbeatRequest{.known_synced = known}));
  };
  CHECK(told_who_knows(count).empty());
  CHECK(told_who_knows(count - 1) == synced);
  CHECK(told_who_knows(0) == synced);
  const std::string args = encoded(HeartbeatRequest{});
  CHECK(told(args) == synced);
  CHECK(told(args.substr(0, args.size() - sizeof(uint32_t))) == synced);  // an older build asks
}

TEST_CASE("a node tells when it heard of a decider last") {
  TestNode node;
  const auto age = [&] { return node.hello().decider_age_ms; };
  const auto beat = [&](HeartbeatRequest request) {
    REQUIRE(status(node.send(Opcode::kHeartbeat, encoded(request))) == "OK");
  };
  const uint64_t start_ms = node.clock.now_ms;
  node.clock.now_ms += 50'000;
  const auto before = age();
  REQUIRE(before >= 50'000);  // since its map
  SECTION("a follower is none") {
    beat({.lease_stamp_ms = 0, .lease_ms = 3000, .sign = DeciderSign::kNone});
    REQUIRE(age() == before);
  }
  SECTION("one that a majority answers is there, with or without leases") {
    beat({.lease_stamp_ms = 0, .lease_ms = 0, .sign = DeciderSign::kHere});
    REQUIRE(age() == 0);
    node.clock.now_ms += 30;
    REQUIRE(age() == 30);
  }
  SECTION("one of an older build grants leases") {
    beat({.lease_stamp_ms = start_ms, .lease_ms = 3000, .sign = DeciderSign::kNone});
    REQUIRE(age() == 0);
  }
  SECTION("one begins to be") {
    node.send(Opcode::kHello, encoded(HelloRequest{.sign = DeciderSign::kHere}));
    REQUIRE(age() == 0);
  }
  SECTION("a map has been made by one") {
    node.install(make_map(2, {1, 2, 0}));
    REQUIRE(age() == 0);
  }
  SECTION("one that leaves is forgotten, though it grants leases") {
    beat({.lease_stamp_ms = node.clock.now_ms, .lease_ms = 3000, .sign = DeciderSign::kLeaves});
    REQUIRE_FALSE(age());
    REQUIRE(node.hello().has_lease);
  }
}

TEST_CASE("a heartbeat of another epoch grants nothing") {
  TestNode node;
  node.clock.now_ms = 9000;
  const std::string args = encoded(HeartbeatRequest{9000, 3000});
  const auto beat = [&](const std::function<void(RequestHeader&)>& change) {
    return status(node.send(Opcode::kHeartbeat, args, {}, change));
  };
  REQUIRE(beat([](auto& h) { h.epoch.number = 7; }) == "STALE_EPOCH");
  REQUIRE(beat([](auto& h) { h.cluster_id = 7; }) == "STALE_EPOCH");
  REQUIRE(beat([](auto& h) { h.incarnation = 7; }) == "STALE_EPOCH");
  REQUIRE(node.stat("lease_left_ms") == 0);
}

TEST_CASE("a new map voids the lease, the same one does not") {
  TestNode node;
  REQUIRE(status(node.try_install(node.map)) == "OK");
  REQUIRE(node.hello().has_lease);
  node.install(make_map(2, {1, 2, 0}));
  REQUIRE_FALSE(node.hello().has_lease);
  REQUIRE(status(read_with(node, {})) == "NO_LEASE");
}

TEST_CASE("a node accepts one map per number, and only greater numbers") {
  TestNode node;
  node.install(make_map(3, {1, 2, 0}));
  REQUIRE(status(node.try_install(make_map(2, {1, 2, 0}))) == "STALE_EPOCH");
  ClusterMap rival = make_map(3, {1, 2, 0});
  rival.epoch.decider = 10;
  const Reply refused = node.try_install(rival);
  REQUIRE(status(refused) == "STALE_EPOCH");
  REQUIRE(refused.header.epoch == node.map.epoch);
  rival.epoch.number = 4;
  REQUIRE(status(node.try_install(rival)) == "OK");
}

TEST_CASE("a map that replaces another map than the installed one is refused") {
  TestNode node;
  const auto install_after = [&](const Epoch& replaced, uint32_t number) {
    ClusterMap next = make_map(number, {1, 2, 0});
    seal(next);
    return status(node.send(Opcode::kInstallMap, {}, encoded(next),
                            [&](RequestHeader& header) { header.epoch = replaced; }));
  };
  const Epoch first = node.map.epoch;
  REQUIRE(install_after(Epoch{}, 2) == "STALE_EPOCH");
  REQUIRE(install_after(first, 2) == "OK");
  REQUIRE(install_after(first, 3) == "STALE_EPOCH");
  REQUIRE(install_after(Epoch{}, 2) == "OK");  // is there already
}

TEST_CASE("maps of another cluster, of epoch 0 or with other partitions are refused") {
  TestNode node;
  ClusterMap next = make_map(2, {1, 2, 0});
  SECTION("cluster") {
    next.cluster_id = 1;
    REQUIRE(status(node.try_install(next)) == "STALE_EPOCH");
  }
  SECTION("epoch 0") {
    next.epoch.number = 0;
    REQUIRE(status(node.try_install(next)) == "INVALID");
  }
  SECTION("partitions") {
    next.partitions.pop_back();
    REQUIRE(status(node.try_install(next)) == "INVALID");
  }
  SECTION("garbage") {
    REQUIRE(status(node.send(Opcode::kInstallMap, {}, "garbage")) == "INVALID");
  }
  SECTION("another checksum") {
    std::string damaged = encoded(node.map);
    damaged.back() ^= 1;
    REQUIRE(status(node.send(Opcode::kInstallMap, {}, damaged)) == "INVALID");
  }
  REQUIRE(node.hello().has_lease);
}

TEST_CASE("an opcode of a newer proxy is refused, and told apart from one that is not for now") {
  TestNode node;
  const auto newer = static_cast<Opcode>(99);
  const Reply reply = node.send(newer, "args", "payload");
  CHECK(reply.header.opcode == newer);
  CHECK(status(reply) == "INVALID");
  CHECK(as_text(reply.payload.bytes()) == "unknown opcode 99");
}

TEST_CASE("HELLO tells what the build can do") {
  TestNode node;
  CHECK(node.hello().capabilities == own_capabilities());
}

TEST_CASE("HELLO tells the map, the clock, what is synced and what is stored") {
  TestNode node;
  ClusterMap next = make_map(2, {1, 2, 0});
  next.partitions[9].synced = false;
  next.partitions[9].sources = {{1}};
  next.partitions[10].homes = {1, 2, 3};
  node.install(next);
  node.grant();
  std::string key = "key";
  while (node.partition(key) == 9 || node.partition(key) == 10) key += "x";
  const uint64_t version = meta_of(node.set(key, "value")).version;

  const Reply reply = node.send(Opcode::kHello, {});
  const auto map = decode_map(reply.payload.bytes());
  REQUIRE(map);
  REQUIRE(*map == node.map);
  const HelloReply hello = args_of<HelloReply>(reply);
  REQUIRE(hello.clock_ms == 5000);
  REQUIRE(hello.max_version == version);
  REQUIRE(hello.synced == std::vector<uint8_t>{0xff, 0xf9});
  REQUIRE(hello.statistics.records == 1);
  REQUIRE(hello.statistics.used_bytes > 0);
  REQUIRE(hello.statistics.limit_bytes == 64u << 20);
  REQUIRE(hello.statistics.frames == node.opaque - 1);
}

TEST_CASE("statistics tell state, partitions, frames and refusals") {
  TestNode node;
  ClusterMap next = make_map(2, {1, 2, 0});
  next.partitions[0].synced = false;
  next.partitions[0].lost = true;
  next.partitions[1].homes = {1, 2, 3};
  node.install(next);
  read_with(node, {});
  const auto all = node.engine.statistics();
  const auto text = [&](const std::string& which) {
    for (const auto& [stat, value] : all) {
      if (stat == which) return value;
    }
    return std::string();
  };
  REQUIRE(text("epoch") == to_string(node.map.epoch));
  REQUIRE(text("state") == "up");
  REQUIRE(text("incarnation") == "1000");
  REQUIRE(text("partitions_home") == "15");
  REQUIRE(text("partitions_synced") == "14");
  REQUIRE(text("partitions_lost") == "1");
  REQUIRE(text("frames_RECORD_READ") == "1");
  REQUIRE(text("refused_NO_LEASE") == "1");
}

}  // namespace elastripe::node::test
