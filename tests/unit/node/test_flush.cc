// What the node makes of a map's flush floor (rule 27).
#include <set>

#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

std::vector<uint8_t> all_partitions() { return std::vector<uint8_t>(kPartitions / 8, 0xff); }

// A key, and the node's next map, which has flushed it.
struct Flushed : TestNode {
  Flushed() {
    before = meta_of(set("key", "7"));
    flush();
  }
  void flush() {
    ClusterMap next = make_map(map.epoch.number + 1, {1, 2, 0});
    next.base = map.epoch;
    next.flush_floor = next.version_floor;
    install(next);
    grant();
  }
  RecordApplyRequest request_if(Mutation mutation, Condition condition, uint64_t argument = 0) {
    RecordApplyRequest r = request("key", mutation);
    r.condition = condition;
    r.condition_argument = argument;
    return r;
  }
  std::string ask(const RecordApplyRequest& r) { return status(apply(r)); }
  std::string ask(const RecordApplyRequest& r, const std::string& value) {
    return status(apply(r, inline_content(value)));
  }

  RecordMeta before;
};

}  // namespace

TEST_CASE("a map that flushes what is committed under it is refused") {
  TestNode node;
  ClusterMap next = make_map(2, {1, 2, 0});
  next.flush_floor = next.version_floor + 1;
  REQUIRE(status(node.try_install(next)) == "INVALID");
}

TEST_CASE("what was flushed is absent for conditions and for changes") {
  Flushed node;
  REQUIRE(status(node.read("key")) == "OK");  // the proxy decides what it means
  REQUIRE(node.ask(node.request_if(Mutation::kSet, Condition::kIfPresent), "x") ==
          "CONDITION_FAILED");
  REQUIRE(node.ask(node.request_if(Mutation::kSet, Condition::kIfValueVersion,
                                   node.before.value_version),
                   "x") == "NOT_FOUND");
  for (const Mutation mutation : {Mutation::kIncrement, Mutation::kDecrement, Mutation::kDelete}) {
    REQUIRE(node.ask(node.request("key", mutation)) == "NOT_FOUND");
  }
  for (const Mutation mutation : {Mutation::kAppend, Mutation::kPrepend, Mutation::kTouch}) {
    REQUIRE(node.ask(node.request("key", mutation), "x") == "NOT_FOUND");
  }
  REQUIRE(node.ask(node.request_if(Mutation::kSet, Condition::kIfAbsent), "x") == "OK");
  REQUIRE(node.ask(node.request_if(Mutation::kSet, Condition::kIfPresent), "y") == "OK");
}

TEST_CASE("nothing is made of a value that was flushed meanwhile") {
  Flushed node;
  REQUIRE(node.ask(node.request_if(Mutation::kSet, Condition::kIfVersion, node.before.version),
                   "77") == "CONDITION_FAILED");
  // Reclaim deletes what it has seen.
  REQUIRE(node.ask(node.request_if(Mutation::kDelete, Condition::kIfVersion,
                                   node.before.version)) == "OK");
}

TEST_CASE("a new version of a record revives no value") {
  TestNode node;
  const RecordMeta before = meta_of(node.set("key", "7"));
  REQUIRE(status(node.apply(node.request("key", Mutation::kFence))) == "OK");
  REQUIRE(status(node.apply(node.request("key", Mutation::kTouch), inline_content("", 0))) == "OK");
  ClusterMap next = make_map(2, {1, 2, 0});
  next.base = node.map.epoch;
  next.flush_floor = before.value_version;  // below the versions since
  node.install(next);
  node.grant();
  REQUIRE(status(node.apply(node.request("key", Mutation::kIncrement))) == "NOT_FOUND");
  REQUIRE(status(node.apply(node.request("key", Mutation::kFence))) == "OK");
  REQUIRE(status(node.apply(node.request("key", Mutation::kIncrement))) == "NOT_FOUND");
}

TEST_CASE("what was flushed is scanned for and dropped as tombstones are") {
  Flushed node;
  const auto scanned = [&](bool tombstones, bool expired, uint32_t min_age_s) {
    RecordScanRequest scan{.max_bytes = 4096, .partitions = all_partitions()};
    scan.tombstones_only = tombstones;
    scan.expired_only = expired;
    scan.min_age_s = min_age_s;
    return args_of<RecordScanReply>(node.send(Opcode::kRecordScan, encoded(scan))).records.size();
  };
  REQUIRE(status(node.set("live", "1")) == "OK");
  REQUIRE(scanned(true, false, 0) == 1);
  REQUIRE(scanned(false, true, 0) == 1);
  REQUIRE(scanned(true, true, 3600) == 0);
  const auto drop = [&](const std::string& key, uint64_t version) {
    DropTombstonesRequest message{node.partition(key), {}};
    message.tombstones.push_back({key, version});
    REQUIRE(status(node.raise_floor(key, version)) == "OK");
    REQUIRE(status(node.send(Opcode::kDropTombstones, encoded(message))) == "OK");
  };
  drop("key", node.before.version);
  REQUIRE(status(node.read("key")) == "NOT_FOUND");
  drop("live", record_of(node.read("live")).meta.version);
  REQUIRE(status(node.read("live")) == "OK");
}

TEST_CASE("a striped record that was flushed is scanned for whatever its age") {
  TestNode node({0, 1, 2});
  Record record = make_record(9, "");
  record.content = striped_content();
  REQUIRE(status(node.store_record("key", record)) == "OK");
  ClusterMap next = make_map(2, {0, 1, 2});
  next.base = node.map.epoch;
  RecordScanRequest scan{.max_bytes = 4096, .partitions = all_partitions()};
  scan.tombstones_only = true;
  scan.min_age_s = 3600;
  const auto found = [&] {
    return args_of<RecordScanReply>(node.send(Opcode::kRecordScan, encoded(scan))).records.size();
  };
  REQUIRE(found() == 0);
  next.flush_floor = next.version_floor;
  node.install(next);
  node.grant();
  REQUIRE(found() == 1);
}

}  // namespace elastripe::node::test
