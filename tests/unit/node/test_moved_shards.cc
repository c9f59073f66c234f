// Moved shards and folded updates in records, and fields that a later program has put at the end of
// metas and contents.
#include "server-patches/node/format/crc32c.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

std::string sealed(const std::string& bare_content) {
  std::string bytes;
  Writer(bytes).u32(crc32c(as_view(bare_content)));
  return bytes + bare_content;
}
// As a later program would write it.
std::string grown(const RecordContent& content, const std::string& tail) {
  return sealed(encoded(content).substr(sizeof(uint32_t)) + tail);
}
std::string grown(const RecordMeta& meta, const std::string& tail) {
  std::string bytes = encoded(meta);
  bytes.resize(bytes.size() - sizeof(uint32_t) - 1);
  Writer(bytes).u8(static_cast<uint8_t>(tail.size()));
  bytes += tail;
  Writer(bytes).u32(crc32c(as_view(bytes)));
  return bytes;
}

std::string moved_list(const std::vector<std::pair<uint32_t, MovedShard>>& entries) {
  std::string list;
  Writer w(list);
  w.u32(static_cast<uint32_t>(entries.size()));
  for (const auto& [segment, shard] : entries) {
    w.u32(segment);
    w.u8(shard.index);
    w.id(shard.txid);
  }
  return list;
}

// The segments that have updates in their shards, and up to which one.
std::string folded_list(const std::vector<std::pair<uint32_t, uint64_t>>& entries) {
  std::string list;
  Writer w(list);
  w.u32(static_cast<uint32_t>(entries.size()));
  for (const auto& [segment, lsn] : entries) {
    w.u32(segment);
    w.u64(lsn);
  }
  return list;
}

// Two segments of three shards.
RecordContent two_segments() {
  RecordContent content = striped_content();
  content.segments.push_back(content.segments[0]);
  content.segments[1].number = 1;
  content.size = 200;
  return content;
}

Decoded<RecordContent> decoded(const std::string& content) {
  Reader in(as_view(content));
  auto result = decode_content(in);
  if (result) REQUIRE(in.complete());
  return result;
}

const std::string kTail = "fields of a later program";

}  // namespace

TEST_CASE("a content without moved shards has the bytes that it had before there were any") {
  constexpr unsigned char kBytes[] = {
      0xd8, 0xae, 0xbe, 0xea,                 // crc32c
      1,    0,    0,    0,    0, 0, 0, 0, 0,  // kind, flags, exptime
      100,  0,    0,    0,    0, 0, 0, 0,     // size
      0,    2,    1,    2,                    // scheme
      1,    0,    0,    0,                    // segments
      7,    0,    0,    0,    0, 0, 0, 0,     // data_txid
      8,    0,    0,    0,    0, 0, 0, 0,     //
      0,    0,    0,    0,    0, 0, 0, 0,     // parity_txid
      0,    0,    0,    0,    0, 0, 0, 0,     //
      0,    0,    0,    0,    0, 0, 0, 0, 0,  // number, generation, state
      100,  0,    0,    0,                    // length
      64,   0,    0,    0,                    // block_bytes
      0,    0,    0,    0,                    // crc32c
      3,    0,    0,    1,    0, 2, 0,        // placement
  };
  const std::string bytes(reinterpret_cast<const char*>(kBytes), sizeof(kBytes));
  CHECK(encoded(striped_content()) == bytes);
  CHECK(decoded(bytes) == striped_content());
}

TEST_CASE("moved shards follow the segments, and come back from their bytes") {
  RecordContent content = two_segments();
  name_moved_shard(content.segments[0], 2, {30, 31});
  name_moved_shard(content.segments[0], 0, {10, 11});
  name_moved_shard(content.segments[1], 1, {20, 21});
  const auto list = moved_list({{0, {0, {10, 11}}}, {0, {2, {30, 31}}}, {1, {1, {20, 21}}}});
  CHECK(encoded(content) == grown(two_segments(), list));
  CHECK(list.size() == sizeof(uint32_t) + 3 * kMovedShardBytes);
  CHECK(decoded(encoded(content)) == content);
  Record record = make_record(10, "");
  record.content = content;
  CHECK(decode_record(as_view(encoded(record))) == record);
  CHECK(is_intact(as_view(encoded(record))));
}

TEST_CASE("a shard is named by the txid of its own try, its siblings by those of the segment") {
  const RecordContent content = striped_content();
  Segment segment = content.segments[0];
  segment.parity_txid = {9, 9};
  const auto txid = [&](size_t index) { return txid_of_shard(segment, content.scheme, index); };
  CHECK(txid(0) == segment.data_txid);
  CHECK(txid(2) == segment.parity_txid);
  name_moved_shard(segment, 2, {1, 1});
  name_moved_shard(segment, 1, {2, 2});
  CHECK(txid(0) == segment.data_txid);
  CHECK(txid(1) == Id128{2, 2});
  CHECK(txid(2) == Id128{1, 1});
  name_moved_shard(segment, 1, {3, 3});
  CHECK(segment.moved == std::vector<MovedShard>{{1, {3, 3}}, {2, {1, 1}}});
  name_parity_shards(segment, content.scheme, {4, 4});
  CHECK(txid(1) == Id128{3, 3});
  CHECK(txid(2) == Id128{4, 4});
  CHECK(segment.moved.size() == 1);
}

TEST_CASE("segments have the same data shards as long as none of these was named or placed anew") {
  const RecordContent content = striped_content();
  const Segment& segment = content.segments[0];
  const auto is_same = [&](auto change) {
    Segment other = segment;
    change(other);
    return has_same_data_shards(segment, other, content.scheme) &&
           has_same_data_shards(other, segment, content.scheme);
  };
  CHECK(is_same([](Segment&) {}));
  CHECK(is_same([](Segment& s) { name_moved_shard(s, 2, {1, 1}); }));
  CHECK(is_same([](Segment& s) { s.parity_txid = {1, 1}; }));
  CHECK(is_same([](Segment& s) { s.placement[2] = 5; }));
  CHECK_FALSE(is_same([](Segment& s) { name_moved_shard(s, 1, {1, 1}); }));
  CHECK_FALSE(is_same([](Segment& s) { s.placement[1] = 5; }));
  CHECK_FALSE(is_same([](Segment& s) { s.data_txid = {1, 1}; }));
  CHECK_FALSE(is_same([](Segment& s) { s.number = 1; }));
}

TEST_CASE("lists of moved shards that are out of order or name none are refused") {
  const Id128 txid{1, 2};
  const auto takes = [](const std::string& list) {
    return decoded(grown(two_segments(), list)).has_value();
  };
  CHECK(takes(moved_list({{0, {1, txid}}, {1, {0, txid}}, {1, {2, txid}}})));
  CHECK_FALSE(takes(moved_list({{0, {1, txid}}, {0, {0, txid}}})));
  CHECK_FALSE(takes(moved_list({{0, {1, txid}}, {0, {1, txid}}})));
  CHECK_FALSE(takes(moved_list({{1, {0, txid}}, {0, {1, txid}}})));
  CHECK_FALSE(takes(moved_list({{0, {3, txid}}})));
  CHECK_FALSE(takes(moved_list({{2, {0, txid}}})));
  CHECK_FALSE(takes(moved_list({{0, {0, {}}}})));
  const std::string whole = moved_list({{0, {1, txid}}, {1, {0, txid}}});
  for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
    INFO(bytes);
    CHECK_FALSE(takes(whole.substr(0, bytes)));
  }
}

TEST_CASE("up to where segments are folded follows the moved shards, of which there may be none") {
  RecordContent content = two_segments();
  std::string moved = moved_list({});
  SECTION("without moved shards") {}
  SECTION("with moved shards") {
    name_moved_shard(content.segments[0], 2, {30, 31});
    moved = moved_list({{0, {2, {30, 31}}}});
  }
  const std::string all_moved = encoded(content);
  SECTION("of the second segment") {
    content.segments[1].folded_lsn = 9;
    CHECK(encoded(content) == grown(two_segments(), moved + folded_list({{1, 9}})));
  }
  SECTION("of both segments") {
    content.segments[0].folded_lsn = UINT64_MAX;
    content.segments[1].folded_lsn = 9;
    const auto list = folded_list({{0, UINT64_MAX}, {1, 9}});
    CHECK(list.size() == sizeof(uint32_t) + 2 * kFoldedBytes);
    CHECK(encoded(content) == grown(two_segments(), moved + list));
  }
  SECTION("of none, there is no such list") {
    CHECK(encoded(content) == all_moved);
    return;
  }
  CHECK(decoded(encoded(content)) == content);
  Record record = make_record(10, "");
  record.content = content;
  CHECK(decode_record(as_view(encoded(record))) == record);
  CHECK(is_intact(as_view(encoded(record))));
}

TEST_CASE("lists of folded segments that are out of order or name none are refused") {
  const auto takes = [](const std::string& list) {
    return decoded(grown(two_segments(), moved_list({}) + list)).has_value();
  };
  CHECK(takes(folded_list({})));
  CHECK(takes(folded_list({{0, 2}, {1, 1}})));
  CHECK_FALSE(takes(folded_list({{1, 1}, {0, 2}})));
  CHECK_FALSE(takes(folded_list({{0, 1}, {0, 2}})));
  CHECK_FALSE(takes(folded_list({{2, 1}})));
  CHECK_FALSE(takes(folded_list({{0, 0}})));
  const std::string whole = folded_list({{0, 2}, {1, 1}});
  for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
    INFO(bytes);
    CHECK_FALSE(takes(whole.substr(0, bytes)));
  }
}

TEST_CASE("the cas of a value is what made it, or the last of its updates wherever that is") {
  const auto cas_of = [](const Record& of, uint64_t last_lsn) {
    CHECK(last_change(of, last_lsn) == node::cas_of(of, last_lsn));
    return node::cas_of(of, last_lsn);
  };
  Record record = make_record(70, "");
  record.meta.value_version = 50;
  record.content = two_segments();
  CHECK(cas_of(record, 0) == 50);
  CHECK(cas_of(record, 52) == 52);
  record.content.segments[1].folded_lsn = 53;
  CHECK(cas_of(record, 52) == 53);
  CHECK(cas_of(record, 54) == 54);
  record.content.segments[0].folded_lsn = 55;
  CHECK(cas_of(record, 54) == 55);
}

TEST_CASE("what follows the fields of a content that are known is ignored") {
  RecordContent content;
  std::string list;
  SECTION("inline") { content = inline_content("value"); }
  SECTION("tombstone") {}
  SECTION("striped") {
    content = striped_content();
    list = moved_list({}) + folded_list({});  // what later fields follow
  }
  SECTION("striped, with moved shards") {
    content = striped_content();
    name_moved_shard(content.segments[0], 1, {1, 2});
    list = folded_list({});
  }
  SECTION("striped, with updates") {
    content = striped_content();
    content.segments[0].folded_lsn = 5;
  }
  CHECK(decoded(grown(content, list)) == content);
  list += std::string(kMarksBytes, '\0');  // none
  CHECK(decoded(grown(content, list)) == content);
  CHECK(decoded(grown(content, list + kTail)) == content);
  Record record = make_record(10, "");
  record.content = content;
  const std::string bytes = encoded(record.meta) + grown(content, list + kTail);
  CHECK(decode_record(as_view(bytes)) == record);
  CHECK(is_intact(as_view(bytes)));
  CHECK(decode_replaced(as_view(bytes))->meta == record.meta);
  CHECK(decode_replaced(as_view(bytes))->content.segments == content.segments);
}

TEST_CASE("what follows the fields of a meta that are known is ignored") {
  Record record = make_record(10, "value");
  SECTION("attempts") { record.meta.recent.push_back({11, {3, 4}}); }
  SECTION("none") { record.meta.recent.clear(); }
  const std::string bytes = grown(record.meta, kTail) + encoded(record.content);
  CHECK(encoded(record.meta).size() == kMetaBytes + kAttemptBytes * record.meta.recent.size());
  CHECK(decode_record(as_view(bytes)) == record);
  CHECK(is_intact(as_view(bytes)));
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    CHECK_FALSE(decode_record(as_view(bytes).first(cut)));
    CHECK_FALSE(is_intact(as_view(bytes).first(cut)));
  }
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    CHECK_FALSE(decode_record(as_view(changed)));
    CHECK_FALSE(is_intact(as_view(changed)));
  }
}

TEST_CASE("a node keeps fields that it does not know until it changes the record itself") {
  TestNode node;
  RecordContent content;
  std::string tail;
  SECTION("inline") { content = inline_content("value"); }
  SECTION("striped") {
    content = striped_content();
    tail = moved_list({}) + folded_list({});
  }
  const std::string given = grown(content, tail + std::string(kMarksBytes, '\0') + kTail);
  const auto set = [&] {
    return node.send(Opcode::kRecordApply, encoded(node.request("key", Mutation::kSet)), given);
  };
  const RecordMeta meta = meta_of(set());
  CHECK(payload_of(node.read("key")) == encoded(meta) + given);
  // A commit in its place reads what it needs of it.
  const RecordMeta again = meta_of(set());
  CHECK(again.recent.size() == 2);
  CHECK(payload_of(node.read("key")) == encoded(again) + given);

  const std::string stored = grown(make_record(again.version + 5, "").meta, kTail) + given;
  REQUIRE(status(node.send(Opcode::kRecordStore, encoded(RecordStoreRequest{.m = 2, .key = "key"}),
                           stored)) == "OK");
  CHECK(payload_of(node.read("key")) == stored);

  const Record touched = record_of(
      node.apply(node.request("key", Mutation::kTouch), inline_content("", 2'000'000'000)));
  content.exptime = 2'000'000'000;
  CHECK(touched.content == content);
  CHECK(payload_of(node.read("key")) == encoded(touched));
}

TEST_CASE("a reshape moves shards, and what is superseded names them as they are") {
  TestNode node;
  const auto reshape = [&](const std::string& given) {
    auto request = node.request("key", Mutation::kReshape);
    request.condition = Condition::kIfVersion;
    request.condition_argument = record_of(node.read("key")).meta.version;
    return node.send(Opcode::kRecordApply, encoded(request), given);
  };
  const RecordContent before = striped_content();
  const uint64_t value_version =
      meta_of(node.apply(node.request("key", Mutation::kSet), before)).version;

  RecordContent moved = before;
  moved.segments[0].placement[1] = 4;
  name_moved_shard(moved.segments[0], 1, {5, 6});
  CHECK(record_of(reshape(encoded(moved))).content == moved);
  CHECK(record_of(node.read("key")).meta.value_version == value_version);

  RecordContent back = moved;
  back.segments[0].placement[1] = 1;
  name_moved_shard(back.segments[0], 1, {7, 7});
  CHECK(record_of(reshape(encoded(back))).content == back);
  CHECK(status(reshape(grown(before, moved_list({{0, {3, {1, 1}}}})))) == "INVALID");
  CHECK(record_of(node.read("key")).content == back);

  const auto touched = record_of(
      node.apply(node.request("key", Mutation::kTouch), inline_content("", 2'000'000'000)));
  CHECK(touched.content.segments == back.segments);
  const auto fenced = record_of(node.apply(node.request("key", Mutation::kFence)));
  CHECK(fenced.content.segments == back.segments);

  const Reply deleted = node.apply(node.request("key", Mutation::kDelete));
  const auto superseded = decoded(args_of<RecordApplyReply>(deleted).superseded);
  REQUIRE(superseded);
  CHECK(superseded->segments == back.segments);
}

}  // namespace elastripe::node::test
