// RECORD_STORE: what middles, tails and sync do with a record.
#include "server-patches/node/engine/item_formats.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {

TEST_CASE("a record is stored if its version is greater than what is there") {
  TestNode node({0, 1, 2});
  const Reply stored = node.store_record("key", make_record(10, "ten"));
  REQUIRE(args_of<RecordStoreReply>(stored).version == 10);
  REQUIRE(args_of<RecordStoreReply>(node.store_record("key", make_record(9, "nine"))).version ==
          10);
  REQUIRE(args_of<RecordStoreReply>(node.store_record("key", make_record(10, "other"))).version ==
          10);
  REQUIRE(record_of(node.read("key", Role::kTail)).content.value == "ten");
  REQUIRE(args_of<RecordStoreReply>(node.store_record("key", make_tombstone(11))).version == 11);
  REQUIRE(record_of(node.read("key", Role::kTail)).is_tombstone());
  REQUIRE(node.hello().max_version == 11);
  REQUIRE(node.stat("records") == 1);
}

TEST_CASE("only homes of the key store it, and sync may use all homes of the partition") {
  TestNode node({1, 2, 0});  // beyond the homes of a pool with m = 1
  const std::string record = encoded(make_record(10, "v"));
  const auto store = [&](bool sync) {
    return status(node.send(Opcode::kRecordStore,
                            encoded(RecordStoreRequest{.m = 1, .sync = sync, .key = "key"}),
                            record));
  };
  REQUIRE(store(false) == "NOT_HOME");
  REQUIRE(store(true) == "OK");
  TestNode stranger({1, 2, 3});
  REQUIRE(status(stranger.store_record("key", make_record(10, "v"), true)) == "NOT_HOME");
}

TEST_CASE("a malformed record is not stored") {
  TestNode node({0, 1, 2});
  const std::string args = encoded(RecordStoreRequest{.m = 2, .key = "key"});
  REQUIRE(status(node.send(Opcode::kRecordStore, args, "garbage")) == "INVALID");
  REQUIRE(status(node.read("key")) == "NOT_FOUND");
}

TEST_CASE("of a record whose length was overwritten nothing is read") {
  TestNode node({1, 2, 0});
  REQUIRE(status(node.set("key", "value")) == "OK");
  {
    const ItemRef item = node.store.find(record_item_key("key"));
    const std::string length(4, '\xff');  // of the record, in the item's prefix
    node.store.write(item, 4, as_view(length));
  }
  REQUIRE(status(node.read("key")) == "BAD_PAGE");
  REQUIRE(status(node.apply(node.request("key", Mutation::kDelete))) == "NOT_SYNCED");
  const RecordScanRequest all{.max_bytes = 4096, .partitions = {0xff, 0xff}};
  REQUIRE(status(node.send(Opcode::kRecordScan, encoded(all))) == "OK");
}

TEST_CASE("a late copy of a record does not come back after its tombstone was collected") {
  TestNode node({0, 1, 2});
  node.store_record("key", make_tombstone(20));
  node.raise_floor("key", 20);
  const std::string drop = encoded(DropTombstonesRequest{node.partition("key"), {{"key", 20}}});
  REQUIRE(status(node.send(Opcode::kDropTombstones, drop)) == "OK");
  REQUIRE(status(node.read("key", Role::kTail)) == "NOT_FOUND");
  const Reply late = node.store_record("key", make_record(19, "late"));
  REQUIRE(status(late) == "FENCED");
  const Reply read = node.read("key", Role::kTail);
  REQUIRE(status(read) == "NOT_FOUND");
  REQUIRE(args_of<RecordReadReply>(read).floor == 20);
  REQUIRE(status(node.store_record("key", make_record(21, "new"))) == "OK");
}

TEST_CASE("sync may bring records below the floor to a home that is not synced yet") {
  TestNode node({0, 1, 2});
  ClusterMap next = make_map(2, {0, 1, 2});
  for (Partition& partition : next.partitions) {
    partition.synced = false;
    partition.sources = {{0, 1}};
  }
  node.raise_floor("key", 50);
  node.install(next);
  node.grant();
  REQUIRE(args_of<RecordReadReply>(node.read("key")).floor == 50);
  REQUIRE(status(node.store_record("key", make_record(40, "old and live"), true)) == "OK");
  REQUIRE(status(node.mark_synced("key", false)) == "OK");
  REQUIRE(record_of(node.read("key", Role::kTail)).content.value == "old and live");
}

TEST_CASE("a store may use the reserve and fails cleanly without it") {
  const size_t cost = ArenaStore::cost(4, 8 + 1600);
  TestNode node({0, 1, 2}, {.limit_bytes = 3 * cost, .reserve_bytes = 3 * cost, .buckets = 16});
  const std::string value(1500, 'v');
  REQUIRE(status(node.store_record("one", make_record(1, value))) == "OK");
  REQUIRE(status(node.store_record("two", make_record(2, value))) == "OK");
  REQUIRE(status(node.store_record("six", make_record(3, value))) == "NO_SPACE");
  REQUIRE(status(node.store_record("two", make_record(3, value + value))) == "NO_SPACE");
  REQUIRE(record_of(node.read("two")).meta.version == 2);
  REQUIRE(status(node.store_record("six", make_tombstone(3))) == "OK");
}

}  // namespace elastripe::node::test
