// Every format comes back from its encoding as it was, and encodings have the documented layout.
#include <array>
#include <set>

#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {

TEST_CASE("a request header comes back from its 64 bytes") {
  RequestHeader header;
  header.opcode = Opcode::kRecordApply;
  header.args_bytes = 10;
  header.body_bytes = 300;
  header.opaque = 0x0102030405060708;
  header.cluster_id = 42;
  header.epoch = {3, 4, 5};
  header.incarnation = 6;
  header.now_ms = kNowMs;
  std::array<std::byte, kHeaderBytes> raw;
  encode(header, raw);
  REQUIRE(raw[0] == std::byte{0xe5});
  REQUIRE(raw[2] == std::byte{11});
  REQUIRE(raw[16] == std::byte{8});  // little-endian
  const auto back = decode_request_header(raw);
  REQUIRE(back);
  REQUIRE(back->opcode == header.opcode);
  REQUIRE(back->args_bytes == 10);
  REQUIRE(back->payload_bytes() == 290);
  REQUIRE(back->opaque == header.opaque);
  REQUIRE(back->cluster_id == 42);
  REQUIRE(back->epoch == header.epoch);
  REQUIRE(back->incarnation == 6);
  REQUIRE(back->now_ms == kNowMs);
}

TEST_CASE("a reply header comes back from its 64 bytes") {
  ReplyHeader header;
  header.opcode = Opcode::kShardRead;
  header.status = Status::kBadPage;
  header.body_bytes = 12;
  header.opaque = 99;
  header.incarnation = 6;
  header.epoch = {3, 4, 5};
  header.free_bytes = 1 << 30;
  std::array<std::byte, kHeaderBytes> raw;
  encode(header, raw);
  const auto back = decode_reply_header(raw);
  REQUIRE(back);
  REQUIRE(back->status == Status::kBadPage);
  REQUIRE(back->incarnation == 6);
  REQUIRE(back->epoch == header.epoch);
  REQUIRE(back->free_bytes == 1 << 30);
  REQUIRE_FALSE(decode_request_header(raw));
}

TEST_CASE("headers with a wrong magic, version or size are refused, what is unknown is not") {
  RequestHeader header;
  header.opcode = Opcode::kHello;
  const auto refused = [&](size_t at, uint8_t value) {
    std::array<std::byte, kHeaderBytes> raw;
    encode(header, raw);
    raw[at] = std::byte{value};
    return !decode_request_header(raw).has_value();
  };
  REQUIRE_FALSE(refused(2, 1));
  REQUIRE(refused(0, 0x80));
  REQUIRE(refused(1, kFormatVersion - 1));
  REQUIRE(refused(1, kFormatVersion + 1));
  REQUIRE_FALSE(refused(2, 0));   // an opcode of a newer proxy
  REQUIRE_FALSE(refused(3, 1));   // a flag
  REQUIRE_FALSE(refused(36, 1));  // reserved
  REQUIRE(refused(4, 1));         // args beyond the body
  REQUIRE(refused(11, 1));        // a body of 16 MiB
  std::array<std::byte, kHeaderBytes> reply;
  encode(ReplyHeader{}, reply);
  reply[3] = std::byte{200};
  const auto newer = decode_reply_header(reply);
  REQUIRE(newer);
  CHECK(std::string(name(newer->status)) == "UNKNOWN");
  CHECK_FALSE(is_answer<RecordApplyRequest>(newer->status));
}

TEST_CASE("every opcode and status has a name of its own") {
  std::set<std::string> names;
  int opcodes = 0;
  for (int i = 0; i < 256; ++i) {
    if (!is_known(static_cast<uint8_t>(i))) continue;
    ++opcodes;
    names.insert(name(static_cast<Opcode>(i)));
  }
  REQUIRE(opcodes == 27);
  for (int i = 0; i < static_cast<int>(kStatuses); ++i) {
    names.insert(name(static_cast<Status>(i)));
  }
  REQUIRE(names.size() == 27 + 25);
  REQUIRE(std::string(name(static_cast<Status>(kStatuses))) == "UNKNOWN");
  REQUIRE_FALSE(names.contains("UNKNOWN"));
}

TEST_CASE("records of every kind come back from their bytes") {
  Record record = make_record(10, "value");
  record.meta.fence = 3;
  record.meta.recent = {{9, {1, 2}}, {10, {3, 4}}};
  SECTION("inline") {}
  SECTION("striped") { record.content = striped_content(); }
  SECTION("tombstone") { record.content = {}; }
  const auto back = decode_record(as_view(encoded(record)));
  REQUIRE(back);
  REQUIRE(*back == record);
  REQUIRE(encoded(record) == encoded(record.meta) + encoded(record.content));
  REQUIRE(is_intact(as_view(encoded(record))));
}

TEST_CASE("a record of which any bit has changed is refused") {
  Record record = make_record(10, "value");
  SECTION("inline") {}
  SECTION("striped") {
    record.content = striped_content();
    name_moved_shard(record.content.segments[0], 1, {3, 4});
  }
  SECTION("tombstone") { record.content = {}; }
  const std::string bytes = encoded(record);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    INFO("bit " << bit);
    REQUIRE_FALSE(decode_record(as_view(changed)));
    REQUIRE_FALSE(is_intact(as_view(changed)));
  }
}

TEST_CASE("the head of a content and its value are the content") {
  const RecordContent content = inline_content("value");
  RecordContent bare = content;
  bare.value.clear();
  std::string head;
  encode_head(bare, as_view("value"), head);
  REQUIRE(head + "value" == encoded(content));
}

TEST_CASE("records that contradict themselves are refused") {
  Record record = make_record(10, "value");
  SECTION("size") { record.content.size = 4; }
  SECTION("scheme") { record.content.scheme.m = 0; }
  SECTION("attempts") { record.meta.recent.resize(9); }
  SECTION("placement") {
    record.content = striped_content();
    record.content.segments[0].placement.pop_back();
  }
  SECTION("segment lengths") {
    record.content = striped_content();
    record.content.segments[0].length = 99;
  }
  SECTION("a segment larger than any configuration has") {
    record.content = striped_content();
    record.content.segments[0].block_bytes = kMaxSegmentBytes;
    record.content.segments[0].length = kMaxSegmentBytes + 1;
    record.content.size = kMaxSegmentBytes + 1;
  }
  SECTION("blocks too small for the segment") {
    record.content = striped_content();
    record.content.segments[0].block_bytes = 49;
  }
  REQUIRE_FALSE(decode_record(as_view(encoded(record))));
}

TEST_CASE("a record is expired from its second on") {
  Record record = make_record(1, "v");
  REQUIRE(record.is_live(kNowMs, 0));
  record.content.exptime = kNowMs / 1000 + 1;
  REQUIRE(record.is_live(kNowMs, 0));
  REQUIRE_FALSE(record.is_live(kNowMs + 1000, 0));
}

TEST_CASE("a record is flushed by the version of its value") {
  Record record = make_record(9, "v");
  record.meta.value_version = 5;
  REQUIRE(record.is_live(kNowMs, 4));
  REQUIRE_FALSE(record.is_as_good_as_tombstone(kNowMs, 4));
  REQUIRE_FALSE(record.is_live(kNowMs, 5));
  REQUIRE(record.is_as_good_as_tombstone(kNowMs, 5));
  record.content = striped_content();
  REQUIRE_FALSE(record.is_live(kNowMs, 5));
  REQUIRE_FALSE(record.is_as_good_as_tombstone(kNowMs, 5));  // its shards are there
}

TEST_CASE("a shard's name takes 25 bytes and its header comes back") {
  ShardHeader header{.name = {{1, 2}, 3, 4, 5}, .key = "key", .payload_bytes = 100};
  header.vector_a = {0, 0};
  REQUIRE(encoded(header.name).size() == kShardNameBytes);
  const std::string bytes = encoded(header);
  Reader in(as_view(bytes));
  const auto back = decode_shard_header(in);
  REQUIRE(back);
  REQUIRE(*back == header);
  REQUIRE(in.complete());
}

TEST_CASE("a sealed map comes back, and any changed byte is noticed") {
  ClusterMap map = make_map(5, {1, 2, 0});
  map.partitions[3].synced = false;
  map.partitions[3].lost = true;
  map.partitions[3].sources = {{0}, {1, 2}, {}};
  map.nodes[2].state = NodeState::kSuspect;
  map.flush_floor = map.version_floor - 1;
  map.flush_at = 1'900'000'000;
  seal(map);
  std::string bytes = encoded(map);
  const auto back = decode_map(as_view(bytes));
  REQUIRE(back);
  REQUIRE(*back == map);
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    REQUIRE_FALSE(decode_map(as_view(changed)));
  }
}

TEST_CASE(
    "a map of a newer decider is read as far as it is known, one of an older has no capabilities") {
  ClusterMap map = make_map(5, {1, 2, 0});
  map.capabilities = CapabilitySet(1);
  seal(map);
  std::string body = encoded(map).substr(sizeof(uint64_t));
  const auto decode_body = [&] {
    std::string bytes;
    Writer(bytes).u64(hash_key(body));
    return decode_map(as_view(bytes + body));
  };
  SECTION("newer") {
    body += "what nobody knows yet";
    const auto back = decode_body();
    REQUIRE(back);
    CHECK(back->capabilities == map.capabilities);
    CHECK(back->partitions == map.partitions);
  }
  SECTION("older") {
    body.resize(body.size() - sizeof(uint64_t));
    const auto back = decode_body();
    REQUIRE(back);
    CHECK(back->capabilities == CapabilitySet());
  }
  SECTION("cut") {
    body.pop_back();
    CHECK_FALSE(decode_body());
  }
}

TEST_CASE("a map tells who is leaving and who has been removed, once all know of that") {
  ClusterMap map = make_map(3, {1, 2, 0});
  map.nodes[1].role = NodeRole::kDraining;
  map.nodes[2].role = NodeRole::kRemoved;
  map.nodes[2].state = NodeState::kLost;
  SECTION("known") {
    map.capabilities = CapabilitySet(1 << 1);
    seal(map);
    const std::string bytes = encoded(map);
    const auto back = decode_map(as_view(bytes));
    REQUIRE(back);
    CHECK(*back == map);
    // The roles are the last bytes, as there are no settings.
    const auto with_last = [&](char role) {
      std::string body = bytes.substr(sizeof(uint64_t));
      body.back() = role;
      std::string sealed;
      Writer(sealed).u64(hash_key(body));
      return decode_map(as_view(sealed + body));
    };
    CHECK(with_last(0));
    CHECK_FALSE(with_last(3));
    map.nodes[2].state = NodeState::kUp;
    seal(map);
    CHECK_FALSE(decode_map(as_view(encoded(map))));
  }
  SECTION("not known") {
    map.capabilities = CapabilitySet();
    seal(map);
    const auto back = decode_map(as_view(encoded(map)));
    REQUIRE(back);
    CHECK(back->nodes[1].role == NodeRole::kMember);
  }
}

TEST_CASE("a map tells the settings of the cluster, once all know of such") {
  ClusterMap map = make_map(3, {1, 2, 0});
  map.settings = {.version = 2,
                  .heartbeat_ms = 100,
                  .suspect_after_ms = 1000,
                  .lease_ms = 3000,
                  .longest_lease_ms = 6000,
                  .refused_is_dead = false,
                  .text = "pools: []"};
  const auto read_back = [&] {
    seal(map);
    return decode_map(as_view(encoded(map)));
  };
  SECTION("not known") {
    map.capabilities = CapabilitySet(1 << 1);
    const auto back = read_back();
    REQUIRE(back);
    CHECK(back->settings == ClusterSettings{});
  }
  SECTION("known") {
    map.capabilities = CapabilitySet(1 << 1 | 1 << 8);
    const auto back = read_back();
    REQUIRE(back);
    CHECK(*back == map);
    SECTION("none") {
      map.settings = {};
      CHECK(read_back());
    }
    SECTION("times that can not be kept") {
      const auto time = GENERATE(&ClusterSettings::heartbeat_ms, &ClusterSettings::suspect_after_ms,
                                 &ClusterSettings::lease_ms, &ClusterSettings::longest_lease_ms);
      map.settings.*time = 0;
      CHECK_FALSE(read_back());
      map.settings.*time = 3'600'001;
      CHECK_FALSE(read_back());
    }
    SECTION("too long") {
      map.settings.text = std::string(kMaxSettingsBytes, ' ');
      CHECK(read_back());
      map.settings.text += ' ';
      CHECK_FALSE(read_back());
    }
  }
}

TEST_CASE("capabilities are sets with names") {
  const CapabilitySet moved(1);
  const CapabilitySet newer(1 | 1 << 11);
  CHECK(moved.has(Capability::kMovedShards));
  CHECK(newer.has_all(moved));
  CHECK_FALSE(moved.has_all(newer));
  CHECK(newer.common_with(moved) == moved);
  CHECK(newer.without(moved).with(moved) == newer);
  CHECK(own_capabilities().has(Capability::kMovedShards));
  CHECK(own_capabilities().has(Capability::kShardFingerprints));
  CHECK(own_capabilities().has(Capability::kShardPatches));
  CHECK(own_capabilities().has(Capability::kShardUpdates));
  CHECK(own_capabilities().has(Capability::kUnnumberedUpdates));
  CHECK(own_capabilities().has(Capability::kMarks));
  CHECK(own_capabilities().has(Capability::kSettings));
  CHECK(own_capabilities().has(Capability::kMapChanges));
  CHECK(own_capabilities().has(Capability::kEvenRing));
  CHECK(to_string(CapabilitySet()) == "none");
  CHECK(to_string(newer) == "moved_shards, bit 11");
}

TEST_CASE("maps with ids or homes that do not exist are refused even with a right hash") {
  ClusterMap map = make_map(5, {1, 2, 0});
  SECTION("id") { map.nodes[2].id = 3; }
  SECTION("home") { map.partitions[0].homes[1] = 4; }
  SECTION("too many homes") { map.partitions[0].homes = {0, 1, 2, 3}; }
  SECTION("source") { map.partitions[0].sources = {{9}}; }
  SECTION("no partitions") { map.partitions.clear(); }
  SECTION("parities") { map.max_parities = 0; }
  seal(map);
  REQUIRE_FALSE(decode_map(as_view(encoded(map))));
}

TEST_CASE("the hash of keys is XXH3 and spreads keys over the partitions") {
  REQUIRE(hash_key("") == 0x2d06800538d394c2);
  const ClusterMap map = make_map(1, {0, 1, 2});
  std::set<size_t> used;
  for (int i = 0; i < 500; ++i) used.insert(map.partition_of("key" + std::to_string(i)));
  REQUIRE(used.size() == kPartitions);
}

}  // namespace elastripe::node::test
