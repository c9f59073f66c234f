// Scans: whole, bounded a frame, and complete although things change meanwhile.
#include <map>
#include <set>

#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

std::vector<uint8_t> all_partitions() { return std::vector<uint8_t>(kPartitions / 8, 0xff); }

struct Scan {
  std::map<std::string, std::string> records;
  std::map<uint32_t, uint64_t> floors;
  int frames = 0;
};

Scan scan(TestNode& node, RecordScanRequest request, const std::function<void()>& between = {}) {
  Scan result;
  do {
    const auto reply = args_of<RecordScanReply>(node.send(Opcode::kRecordScan, encoded(request)));
    for (const ScannedRecord& record : reply.records) result.records[record.key] = record.record;
    for (const auto& [partition, floor] : reply.floors) result.floors[partition] = floor;
    request.cursor = reply.cursor;
    ++result.frames;
    if (between) between();
  } while (request.cursor != 0);
  return result;
}

}  // namespace

TEST_CASE("a scan returns every record of the partitions, and the floors at its end") {
  TestNode node({0, 1, 2});
  for (uint64_t i = 1; i <= 300; ++i) {
    node.store_record("key" + std::to_string(i), make_record(i, std::string(100, 'v')));
  }
  node.raise_floor("key1", 7);
  const Scan whole = scan(node, {.max_bytes = 4096, .partitions = all_partitions()});
  REQUIRE(whole.records.size() == 300);
  REQUIRE(whole.frames > 5);
  REQUIRE(whole.floors.size() == kPartitions);
  REQUIRE(whole.floors.at(node.partition("key1")) == 7);
  REQUIRE(whole.records.at("key9") == encoded(make_record(9, std::string(100, 'v'))));

  std::vector<uint8_t> one(kPartitions / 8, 0);
  const uint32_t partition = node.partition("key1");
  one[partition / 8] = static_cast<uint8_t>(1 << partition % 8);
  const Scan part = scan(node, {.max_bytes = 4096, .partitions = one});
  REQUIRE(part.floors.size() == 1);
  REQUIRE(part.records.contains("key1"));
  for (const auto& [key, record] : part.records) REQUIRE(node.partition(key) == partition);
}

TEST_CASE("a bucket that does not fit in a frame is scanned all the same") {
  TestNode node({0, 1, 2}, {.buckets = 1});
  for (uint64_t i = 1; i <= 10; ++i) {
    node.store_record("key" + std::to_string(i), make_record(i, std::string(1 << 20, 'v')));
  }
  node.store_record("tombstone", make_tombstone(20));
  const Scan whole = scan(node, {.max_bytes = 1, .partitions = all_partitions()});
  REQUIRE(whole.records.size() == 11);
  for (const auto& [key, record] : whole.records) REQUIRE_FALSE(record.empty());
  const Scan more = scan(node, {.max_bytes = UINT32_MAX, .partitions = all_partitions()});
  REQUIRE(more.records.size() == 11);
  const Scan tombstones =
      scan(node, {.max_bytes = 1, .tombstones_only = true, .partitions = all_partitions()});
  REQUIRE(tombstones.records.size() == 1);
  REQUIRE(tombstones.records.at("tombstone") == encoded(make_tombstone(20)));
}

TEST_CASE("a slice of a scan keeps to its bytes however many keys share a bucket") {
  TestNode node({0, 1, 2}, {.buckets = 1});
  for (uint64_t i = 1; i <= 500; ++i) {
    node.store_record("key" + std::to_string(i), make_record(i, std::string(100, 'v')));
  }
  RecordScanRequest request{.max_bytes = 4096, .partitions = all_partitions()};
  std::set<std::string> found;
  do {
    const Reply reply = node.send(Opcode::kRecordScan, encoded(request));
    REQUIRE(reply.header.body_bytes < 8192);
    const auto args = args_of<RecordScanReply>(reply);
    for (const ScannedRecord& record : args.records) REQUIRE(found.insert(record.key).second);
    REQUIRE(args.cursor != request.cursor);
    request.cursor = args.cursor;
  } while (request.cursor != 0);
  REQUIRE(found.size() == 500);
}

TEST_CASE("the limits of a frame's scan are options") {
  TestNode node({0, 1, 2}, {.buckets = 64, .buckets_per_walk = 2},
                {.scan = {.walks_per_frame = 3, .record_bytes = 200}});
  for (uint64_t i = 1; i <= 100; ++i) {
    node.store_record("key" + std::to_string(i), make_record(i, std::string(20, 'v')));
  }
  const Scan whole = scan(node, {.max_bytes = UINT32_MAX, .partitions = all_partitions()});
  REQUIRE(whole.records.size() == 100);
  REQUIRE(whole.frames >= 64 / (2 * 3));
}

TEST_CASE("a scan may ask for keys with a prefix, and for records without their values") {
  TestNode node({0, 1, 2});
  node.store_record("a/1", make_record(1, "value"));
  node.store_record("b/1", make_record(2, "value"));
  const Scan part = scan(node, {.max_bytes = 4096, .prefix = "a/", .partitions = all_partitions()});
  REQUIRE(part.records.size() == 1);
  REQUIRE(part.records.at("a/1") == encoded(make_record(1, "value")));
  const Scan bare =
      scan(node, {.max_bytes = 4096, .without_values = true, .partitions = all_partitions()});
  REQUIRE(bare.records.size() == 2);
  const auto record = decode_record(as_view(bare.records.at("b/1")));
  REQUIRE(record.has_value());
  REQUIRE(record->content.kind == RecordKind::kInline);
  REQUIRE(record->content.value.empty());
  REQUIRE(record->content.size == 0);
  REQUIRE(record->meta.version == 2);
}

TEST_CASE("a scan begins with which of its partitions are not synced") {
  TestNode node({0, 1, 2}, {.buckets = 20'000});
  ClusterMap next = make_map(2, {0, 1, 2});
  for (const size_t p : {2u, 3u, 4u}) next.partitions[p].synced = false;
  next.partitions[4].lost = true;
  next.partitions[5].homes = {1, 2, 3};
  node.install(next);
  node.grant();
  const auto first = [&](std::vector<uint8_t> bits) {
    return args_of<RecordScanReply>(
        node.send(Opcode::kRecordScan,
                  encoded(RecordScanRequest{.max_bytes = 1000, .partitions = std::move(bits)})));
  };
  RecordScanReply reply = first({0x1f});
  REQUIRE(reply.unsynced == std::vector<uint32_t>{2, 3});
  REQUIRE(first({0x03}).unsynced.empty());
  REQUIRE(reply.cursor != 0);
  reply = args_of<RecordScanReply>(node.send(
      Opcode::kRecordScan,
      encoded(RecordScanRequest{.cursor = reply.cursor, .max_bytes = 1000, .partitions = {0x1f}})));
  REQUIRE(reply.unsynced.empty());
  REQUIRE(status(node.send(Opcode::kMarkSynced, encoded(MarkSyncedRequest{2, "", 0}))) == "OK");
  REQUIRE(first({0x1f}).unsynced == std::vector<uint32_t>{3});
}

TEST_CASE("a scan names only partitions that there are") {
  TestNode node({0, 1, 2});
  const auto asked = [&](std::vector<uint8_t> partitions) {
    return status(node.send(Opcode::kRecordScan,
                            encoded(RecordScanRequest{.partitions = std::move(partitions)})));
  };
  REQUIRE(asked(all_partitions()) == "OK");
  REQUIRE(asked({}) == "OK");
  REQUIRE(asked({0, 0, 1}) == "INVALID");
  REQUIRE(asked(std::vector<uint8_t>(kPartitions / 8 + 1, 0)) == "INVALID");
}

TEST_CASE("a scan may ask for tombstones and for what has expired") {
  TestNode node({0, 1, 2});
  Record expired = make_record(2, "v");
  expired.content.exptime = kNowMs / 1000;
  node.store_record("live", make_record(1, "v"));
  node.store_record("expired", expired);
  node.store_record("tombstone", make_tombstone(3));
  const auto keys = [&](bool tombstones, bool expirees) {
    std::set<std::string> found;
    const RecordScanRequest request{.max_bytes = 1000,
                                    .tombstones_only = tombstones,
                                    .expired_only = expirees,
                                    .partitions = all_partitions()};
    for (const auto& [key, record] : scan(node, request).records) found.insert(key);
    return found;
  };
  REQUIRE(keys(false, false).size() == 3);
  REQUIRE(keys(true, false) == std::set<std::string>{"tombstone"});
  REQUIRE(keys(false, true) == std::set<std::string>{"expired"});
  REQUIRE(keys(true, true) == std::set<std::string>{"expired", "tombstone"});
}

TEST_CASE("a scan may ask for striped records, and for what has been dead for a while") {
  TestNode node({0, 1, 2});
  Record expired = make_record(2, "v");
  expired.content.exptime = kNowMs / 1000;
  Record striped = make_record(3, "");
  striped.content = striped_content();
  Record old_object = striped;
  old_object.content.exptime = kNowMs / 1000;
  node.store_record("live", make_record(1, "v"));
  node.store_record("expired", expired);
  node.store_record("striped", striped);
  node.store_record("tombstone", make_tombstone(4));
  node.clock.now_ms += 1500;
  node.store_record("old object", old_object);
  const auto all = all_partitions();
  const auto keys = [&](RecordScanRequest request) {
    request.max_bytes = 1000;
    std::set<std::string> found;
    for (const auto& [key, record] : scan(node, request).records) found.insert(key);
    return found;
  };
  const auto dead_for = [&](uint32_t age_s) {
    return RecordScanRequest{
        .tombstones_only = true, .expired_only = true, .min_age_s = age_s, .partitions = all};
  };
  REQUIRE(keys({.striped_only = true, .partitions = all}) ==
          std::set<std::string>{"old object", "striped"});
  REQUIRE(keys(dead_for(1)) == std::set<std::string>{"expired", "old object", "tombstone"});
  REQUIRE(keys(dead_for(2)) == std::set<std::string>{"old object"});
  node.clock.now_ms += 500;
  node.store_record("tombstone", make_tombstone(5));  // is another item
  REQUIRE(keys(dead_for(2)) == std::set<std::string>{"expired", "old object"});
}

TEST_CASE("what is stored during a whole scan is in it, whatever else changes") {
  TestNode node({0, 1, 2}, {.buckets = 20'000});
  const int count = 2000;
  uint64_t version = 0;
  for (int i = 0; i < count; ++i) {
    node.store_record("key" + std::to_string(i), make_record(++version, "v"));
  }
  int round = 0;
  const Scan whole = scan(node, {.max_bytes = 10'000, .partitions = all_partitions()}, [&] {
    for (int i = 0; i < 20; ++i) {
      const int n = (round * 20 + i) % count;
      node.store_record("key" + std::to_string(n), make_record(++version, "changed"));
      node.store_record("new" + std::to_string(n), make_record(++version, "new"));
    }
    ++round;
  });
  REQUIRE(round > 5);
  for (int i = 0; i < count; ++i) REQUIRE(whole.records.contains("key" + std::to_string(i)));
}

TEST_CASE("scans of partitions that are not here are refused") {
  TestNode node({0, 1, 2});
  ClusterMap next = make_map(2, {0, 1, 2});
  next.partitions[3].homes = {1, 2, 3};
  node.install(next);
  node.grant();
  const auto scan_bits = [&](std::vector<uint8_t> bits) {
    return status(
        node.send(Opcode::kRecordScan, encoded(RecordScanRequest{.partitions = std::move(bits)})));
  };
  REQUIRE(scan_bits({0x07}) == "OK");
  REQUIRE(scan_bits({0x08}) == "NOT_HOME");
  REQUIRE(scan_bits({0, 0, 1}) == "INVALID");
  REQUIRE(scan_bits({}) == "OK");
}

TEST_CASE("a scan of shards lists names, owners and ages, the old ones if asked") {
  TestNode node;
  for (uint8_t i = 0; i < 50; ++i) {
    const ShardHeader header{.name = {{1, 2}, 0, 0, i}, .key = "owner", .payload_bytes = 3};
    node.send(Opcode::kShardWrite, encoded(ShardWriteRequest{header}), "abc");
    if (i == 24) node.clock.now_ms += 1000;
  }
  node.set("record", "is no shard");
  const auto list = [&](uint32_t min_age_ms) {
    std::map<uint8_t, ScannedShard> found;
    ShardScanRequest request{.max_entries = 7, .min_age_ms = min_age_ms};
    int frames = 0;
    do {
      const auto reply = args_of<ShardScanReply>(node.send(Opcode::kShardScan, encoded(request)));
      for (const ScannedShard& shard : reply.shards) found[shard.name.index] = shard;
      request.cursor = reply.cursor;
      ++frames;
    } while (request.cursor != 0);
    REQUIRE(frames > 3);
    return found;
  };
  const auto all = list(0);
  REQUIRE(all.size() == 50);
  REQUIRE(all.at(3).key == "owner");
  REQUIRE(all.at(3).age_ms == 1000);
  REQUIRE(all.at(40).age_ms == 0);
  REQUIRE(all.at(40).payload_bytes == 3);
  REQUIRE(list(500).size() == 25);
}

TEST_CASE("a scan of shards ends where there are none left") {
  TestNode node;
  const auto scan = [&](uint64_t cursor) {
    const ShardScanRequest request{.cursor = cursor, .max_entries = 1};
    return args_of<ShardScanReply>(node.send(Opcode::kShardScan, encoded(request)));
  };
  REQUIRE(status(node.set("key", "value")) == "OK");
  REQUIRE(scan(0).cursor == 0);
  std::vector<ShardName> names;
  for (uint8_t i = 0; i < 2; ++i) {
    const ShardHeader header{.name = {{1, 2}, 0, 0, i}, .key = "owner", .payload_bytes = 3};
    node.send(Opcode::kShardWrite, encoded(ShardWriteRequest{header}), "abc");
    names.push_back(header.name);
  }
  const ShardScanReply first = scan(0);
  REQUIRE(first.shards.size() == 1);
  REQUIRE(first.cursor != 0);
  REQUIRE(status(node.send(Opcode::kShardDelete, encoded(ShardDeleteRequest{names}))) == "OK");
  const ShardScanReply last = scan(first.cursor);
  REQUIRE(last.shards.empty());
  REQUIRE(last.cursor == 0);
}

TEST_CASE("a scan of shards may ask for those of some partitions") {
  TestNode node;
  for (uint8_t i = 0; i < 50; ++i) {
    const ShardHeader header{
        .name = {{1, 2}, 0, 0, i}, .key = "owner" + std::to_string(i), .payload_bytes = 3};
    node.send(Opcode::kShardWrite, encoded(ShardWriteRequest{header}), "abc");
  }
  const auto list = [&](std::vector<uint8_t> partitions) {
    const ShardScanRequest request{.max_entries = 100, .partitions = std::move(partitions)};
    return node.send(Opcode::kShardScan, encoded(request));
  };
  REQUIRE(args_of<ShardScanReply>(list({})).shards.size() == 50);
  size_t found = 0;
  for (const std::vector<uint8_t>& half : {std::vector<uint8_t>{0xff}, {0, 0xff}}) {
    const auto reply = args_of<ShardScanReply>(list(half));
    for (const ScannedShard& shard : reply.shards) {
      REQUIRE((node.partition(shard.key) < 8) == (half.size() == 1));
    }
    REQUIRE(reply.shards.size() < 50);
    found += reply.shards.size();
  }
  REQUIRE(found == 50);
  REQUIRE(status(list({0, 0, 1})) == "INVALID");
}

}  // namespace elastripe::node::test
