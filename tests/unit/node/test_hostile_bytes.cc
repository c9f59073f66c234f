// Decoders meet every truncation and random damage: they refuse or decode, and never read out of
// bounds or take more memory than the input warrants (run it under ASan too).
#include <algorithm>
#include <array>
#include <random>

#include "server-patches/node/format/map_changes.h"
#include "server-patches/node/format/shard_update_messages.h"
#include "tests/unit/node/allocations.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

using DecodeAny = std::function<bool(ByteView)>;

template <class Message>
DecodeAny decodes() {
  return [](ByteView in) { return decode<Message>(in).has_value(); };
}

struct Sample {
  std::string what;
  std::string bytes;
  DecodeAny decode;
  std::vector<size_t> ends = {};  // before fields that older peers do not have, from the back
  bool is_sealed = false;         // a checksum covers all that there is
};

template <class Message>
Sample sample(const char* what, const Message& message) {
  return {what, encoded(message), decodes<Message>()};
}

LogImage sample_log() {
  return {.value = 1,
          .last = 9,
          .rank = 10,
          .settled_to = 7,
          .reach = 5,
          .recent = {{{1, 6}, 6}, {{1, 8}, 8}},
          .settled = {{{}, 7, 100, 3, "settled"}, {{}, 6, 200, 4, "too"}},
          .unsettled = {{{1, 8}, 8, 103, 5, "over it"}, {{1, 9}, 9, 0, 6, "un"}},
          .unnumbered = {{{1, 12}, 0, 4, 7, "waits"}}};
}

std::vector<Sample> samples() {
  Record striped = make_record(3, "");
  striped.content = striped_content();
  name_moved_shard(striped.content.segments[0], 0, {1, 2});
  name_moved_shard(striped.content.segments[0], 2, {3, 4});
  striped.content.segments[0].folded_lsn = 2;
  ClusterMap map = make_map(5, {1, 2, 0});
  map.partitions[1].sources = {{0, 1}, {2}};
  seal(map);
  ClusterMap next = map;
  ++next.epoch.number;
  next.nodes[1].incarnation = 5;
  next.nodes.push_back(next.nodes[3]);
  next.nodes[4].id = 4;
  next.partitions[2].homes = {4, 1, 2};
  next.partitions[2].sources = {{0, 1}, {2}};
  next.settings.text = "pools: []";
  seal(next);
  HelloReply hello;
  hello.synced = {1, 2};
  hello.is_changes = true;
  RecordApplyRequest apply;
  apply.attempt_id = {1, 2};
  apply.key = "key";
  apply.made_of_cas = 3;
  RecordScanReply scan;
  scan.records = {{"key", "record"}, {"other", ""}};
  scan.floors = {{1, 2}};
  scan.unsynced = {3, 4};
  scan.versions = {{"key", {5, {6, 7}}, true, false}, {"other", {8, {9, 10}}, false, true, true}};
  const std::vector<ShardName> names = {{{1, 2}, 3, 4, 5}, {{6, 7}, 8, 9, 10}};
  ShardScanReply shards;
  shards.shards = {{names[0], "key", 5, 6}};
  const ShardHeader header{.name = names[0], .key = "key", .payload_bytes = 9, .vector_a = {1}};
  ShardConfirmReply confirm;
  confirm.entries = {{true, 1, 2}};
  ShardFingerprintReply fingerprints;
  fingerprints.entries = {{ShardHealth::kIntact, 1}, {ShardHealth::kBad, 0}};
  fingerprints.blocks = {{7, {8, 9}}};
  const auto record = [](ByteView in) { return decode_record(in).has_value(); };
  const auto ending = [](Sample sample, std::vector<size_t> ends) {
    sample.ends = std::move(ends);
    return sample;
  };
  const auto log_bytes = static_cast<uint32_t>(encoded(sample_log()).size());
  // Nodes of older builds tell no capabilities, no version, none of the later statistics, or of no
  // decider.
  std::vector<size_t> hello_ends;
  for (size_t i = 1; i <= kNodeStatistics.size() - kFirstNodeStatistics + 1; ++i) {
    hello_ends.push_back(i * sizeof(uint64_t));
  }
  hello_ends.push_back(hello_ends.back() + sizeof(uint16_t));
  hello_ends.push_back(hello_ends.back() + sizeof(uint64_t));
  // Nor of changes of maps.
  for (size_t& end : hello_ends) end += sizeof(uint8_t);
  hello_ends.push_back(sizeof(uint8_t));
  const LogStoreRequest log_store{.entries = {{{{1, 2}, 3}, 4, 5, 6}, {{{2, 2}, 4}, 5, 6, 7}},
                                  .unsettled = {{{3, 2}, 1}, {{3, 3}, 2}},
                                  .key = "key"};
  return {
      {"record", encoded(make_record(9, "value")), record, {}, true},
      {"striped record", encoded(striped), record, {}, true},
      {"map", encoded(map), [](ByteView in) { return decode_map(in).has_value(); }, {}, true},
      ending(sample("HELLO reply", hello), hello_ends),
      ending(sample("HEARTBEAT", HeartbeatRequest{1, 2, DeciderSign::kLeaves, 3}), {5, 4}),
      {"map changes", changes_between(map, next).value(),
       [map](ByteView in) { return apply_changes(map, in).has_value(); }},
      ending(sample("HELLO", HelloRequest{7, DeciderSign::kHere, true}), {10, 2, 1}),
      ending(sample("INSTALL_MAP", InstallMapRequest{.is_changes = true}), {1}),
      sample("NOTICES", NoticesRequest{7, 8, {{1, 2, 3, 4, "text"}, {1, 0, 4, 5, ""}}}),
      sample("NOTICES reply", NoticesReply{9, {{1, 2, 3, 4, "text"}}}),
      ending(sample("RECORD_READ",
                    RecordReadRequest{.key = "key", .log = LogWanted::kView, .is_use = true}),
             {1, 1 + 17}),
      ending(sample("RECORD_READ reply",
                    RecordReadReply{.floor = 3,
                                    .damaged_version = 4,
                                    .log = encoded(sample_log()),
                                    .synced_in = 5,
                                    .use = RecordReadReply::Use{.was_used = true}}),
             {5, 5 + 4, 5 + 4 + 8, 5 + 4 + 8 + 4 + log_bytes}),
      ending(sample("RECORD_APPLY", apply), {sizeof(uint64_t)}),
      ending(sample("RECORD_APPLY reply", RecordApplyReply{1, true, "content", true}), {1}),
      ending(sample("RECORD_STORE", RecordStoreRequest{.key = "key", .log = "log"}),
             {sizeof(uint32_t) + 3}),
      sample("RECORD_STORE reply", RecordStoreReply{3}),
      sample("RECORD_SCAN", RecordScanRequest{.prefix = "p", .partitions = {0xff, 1}}),
      ending(sample("RECORD_SCAN reply", scan), {2 * sizeof(uint32_t)}),
      sample("MARK_SYNCED", MarkSyncedRequest{1, "key", 2}),
      sample("RAISE_FLOOR", RaiseFloorRequest{1, 2}),
      sample("DROP_TOMBSTONES", DropTombstonesRequest{1, {{"a", 2}, {"b", 3}}}),
      sample("RECORD_CONFIRM", RecordConfirmRequest{{{"a", {1, {2, 3}}}, {"b", {4, {5, 6}}}}}),
      sample("RECORD_CONFIRM reply", RecordConfirmReply{{0xff, 1}}),
      sample("RECORD_FETCH", RecordFetchRequest{1, {"a", "b"}}),
      sample("RECORD_FETCH reply", RecordFetchReply{{5, 0}}),
      sample("SHARD_WRITE", ShardWriteRequest{header}),
      sample("SHARD_WRITE reply", ShardWriteReply{1}),
      sample("SHARD_READ", ShardReadRequest{names[0], 1, 2}),
      sample("SHARD_CONFIRM", ShardConfirmRequest{names, false}),
      sample("SHARD_CONFIRM reply", confirm),
      sample("SHARD_DELETE", ShardDeleteRequest{names}),
      sample("SHARD_DELETE reply", ShardDeleteReply{1}),
      sample("SHARD_SCAN", ShardScanRequest{1, 2, 3}),
      sample("SHARD_BUILD", ShardBuildRequest{names[0], header, 3, {{{1, 2}, {3}}, {{}, {4}}}}),
      sample("SHARD_PATCH",
             ShardPatchRequest{
                 names[0], header, ShardPatchMode::kAdd, {{1, 2, 3}, {3, 4, 5}, {9, 1, 6}}}),
      sample("SHARD_UPDATE",
             ShardUpdateRequest{
                 names[0], ShardUpdateMode::kCollect, 7, {{1, 2, 3}, {1, 4, 5}}, "abcd"}),
      sample("SHARD_UPDATE drop",
             ShardUpdateRequest{names[0], ShardUpdateMode::kDrop, 7, {{1, 2, 3}, {4, 4, 5}}, ""}),
      sample(
          "SHARD_UPDATE speculate",
          ShardUpdateRequest{
              names[0], ShardUpdateMode::kSpeculate, 0, {{9, 2, 3}, {0, 1, 4}}, "", 1, 2, 3, 1, 5}),
      ending(sample("SHARD_UPDATE reply", ShardUpdateReply{{{1, 2}, {3, 4}}, 5, 6}),
             {2 * sizeof(uint64_t)}),
      sample("SHARD_SCAN reply", shards),
      sample("SHARD_FINGERPRINT", ShardFingerprintRequest{{1, 2}, {{names[0], 3}, {names[1], 4}}}),
      sample("SHARD_FINGERPRINT reply", fingerprints),
      ending({"update log", encoded(sample_log()),
              [](ByteView in) { return decode_log(in).has_value(); }},
             {sizeof(uint32_t) + kExtentBytes + 5}),
      ending(sample("LOG_APPEND", LogAppendRequest{.id = {1, 2}, .key = "key", .settled_to = 3}),
             {sizeof(uint64_t)}),
      sample("LOG_APPEND reply", LogAppendReply{3, 2, 3, {{{1, 2}, 1}, {{3, 4}, 2}}}),
      sample("LOG_STORE", log_store),
      ending(sample("LOG_STORE reply", LogStoreReply{{{1, 2}, {3, 4}}, {{5, 6}}}),
             {sizeof(uint32_t) + sizeof(Id128)}),
      ending(sample("LOG_SETTLE", LogSettleRequest{{{"key", 1, 2, {{{5, 6}, 7}}},
                                                    {"other", 3, 0, {{{1, 2}, 4}}}}}),
             {2 * (sizeof(uint32_t) + kUpdateNameBytes)}),
      ending(sample("LOG_SETTLE reply", LogSettleReply{{1, 4}}), {3 * sizeof(uint32_t)}),
      sample("LOG_CANCEL", LogCancelRequest{2, 3, 4, "key", {{1, 2}, {3, 4}}}),
      sample("LOG_CANCEL reply", LogCancelReply{{0, 7}}),
      sample("LOG_SCAN", LogScanRequest{1, 2, 3}),
      ending(sample("LOG_SCAN reply", LogScanReply{1, {{"key", 2, 3}, {"other", 4, 5}}, {"waits"}}),
             {sizeof(uint32_t) + sizeof(uint16_t) + 5}),
  };
}

// On the heap with its exact size, so that ASan sees a read past its end.
bool decode_exact(const Sample& s, std::string_view bytes) {
  OwnedBytes exact(bytes);
  return s.decode(exact.bytes());
}

}  // namespace

TEST_CASE("every message decodes whole, with more behind it, and at no truncation") {
  for (const Sample& s : samples()) {
    INFO(s.what);
    REQUIRE(decode_exact(s, s.bytes));
    for (size_t n = 0; n < s.bytes.size(); ++n) {
      INFO("cut to " << n << " of " << s.bytes.size());
      const bool is_end = std::ranges::find(s.ends, s.bytes.size() - n) != s.ends.end();
      REQUIRE(decode_exact(s, std::string_view(s.bytes).substr(0, n)) == is_end);
    }
    REQUIRE(decode_exact(s, s.bytes + "of a newer peer") == !s.is_sealed);
  }
}

TEST_CASE("random damage never breaks a decoder") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  size_t refused = 0;
  for (const Sample& s : samples()) {
    for (int round = 0; round < 2000; ++round) {
      std::string bytes = s.bytes;
      for (uint32_t changes = 1 + random() % 4; changes > 0; --changes) {
        bytes[random() % bytes.size()] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
      }
      if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
      refused += decode_exact(s, bytes) ? 0 : 1;
    }
  }
  REQUIRE(refused > 0);
}

TEST_CASE("no count makes a decoder take memory for what is not there") {
  constexpr size_t kBytes = 64 << 10;
  for (const Sample& s : samples()) {
    if (s.what == "map") continue;  // its hash is checked before anything is read
    // An empty group of sources is one byte here, and a vector in memory.
    const size_t limit = s.what == "map changes" ? 32 * kBytes : 4 * kBytes;
    INFO(s.what);
    // Every place of the sample that might be a count claims as many elements as the bytes that
    // follow could be, were each of the given size.
    for (size_t at = 0; at + 4 <= s.bytes.size(); ++at) {
      for (const uint32_t element_bytes :
           {1u, 2u, 3u, 4u, 6u, 7u, 9u, 11u, 12u, 24u, 25u, 38u, 40u}) {
        std::string bytes = s.bytes.substr(0, at);
        Writer(bytes).u32(static_cast<uint32_t>((kBytes - at - 4) / element_bytes));
        bytes.resize(kBytes, '\0');
        largest_allocation = 0;
        s.decode(as_view(bytes));
        REQUIRE(largest_allocation < limit);
      }
    }
  }
}

TEST_CASE("frames of random bytes leave the engine answering") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  TestNode node;
  REQUIRE(status(node.set("key", "value")) == "OK");
  const auto all = samples();
  for (int round = 0; round < 5000; ++round) {
    const Sample& args = all[random() % all.size()];
    std::string bytes = args.bytes;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const std::string& payload = all[random() % 3].bytes;
    uint8_t opcode = 0;
    while (!is_known(opcode) || opcode == static_cast<uint8_t>(Opcode::kInstallMap)) {
      opcode = static_cast<uint8_t>(kOpcodes[random() % kOpcodes.size()].opcode);
    }
    node.send(static_cast<Opcode>(opcode), bytes, random() % 2 == 0 ? payload : std::string());
  }
  REQUIRE(node.stat("refused_INVALID") > 0);
  REQUIRE(node.stat("frames") > 5000);
}

TEST_CASE("versions that no epoch can have assigned are refused, and poison nothing") {
  TestNode node;
  REQUIRE(status(node.set("key", "value")) == "OK");
  const uint64_t highest = node.hello().max_version;
  const uint64_t floor = node.map.version_floor;
  for (const uint64_t version : {UINT64_MAX, floor + (uint64_t{1} << 50)}) {
    REQUIRE(status(node.store_record("other", make_record(version, "v"), true)) == "INVALID");
    REQUIRE(status(node.raise_floor("key", version)) == "INVALID");
    REQUIRE(status(node.mark_synced("key", true, version)) == "INVALID");
    REQUIRE(status(node.mark_synced("key", false, version)) == "INVALID");
    Record record = make_record(highest + 1, "v");
    record.meta.fence = version;
    REQUIRE(status(node.store_record("key", record, true)) == "INVALID");
    record = make_record(highest + 1, "v");
    record.meta.value_version = version;
    REQUIRE(status(node.store_record("key", record, true)) == "INVALID");
    record = make_record(highest + 1, "v");
    record.meta.recent.push_back({version, {1, 2}});
    REQUIRE(status(node.store_record("key", record, true)) == "INVALID");
  }
  REQUIRE(node.hello().max_version == highest);
  REQUIRE(status(node.set("key", "value")) == "OK");
  REQUIRE(record_of(node.read("key")).meta.version == highest + 1);
  SECTION("a counter that has carried far is none of them, and leaves room for more") {
    const uint64_t carried = floor + (uint64_t{1} << 40);
    REQUIRE(status(node.store_record("other", make_record(carried, "v"), true)) == "OK");
    REQUIRE(status(node.raise_floor("key", carried)) == "OK");
    REQUIRE(status(node.set("key", "value")) == "OK");
    REQUIRE(status(node.set("other", "value")) == "OK");
  }
}

TEST_CASE("a map of too many groups of sources is refused before they fill the memory") {
  ClusterMap map = make_map(2, {1, 2, 0});
  for (Partition& partition : map.partitions) partition.sources.assign(60'000, {});
  seal(map);
  REQUIRE(decode_map(as_view(encoded(map))).has_value());
  map.partitions.push_back(map.partitions.front());
  map.partitions.push_back(map.partitions.front());
  seal(map);
  REQUIRE_FALSE(decode_map(as_view(encoded(map))).has_value());
}

TEST_CASE("maps whose numbers would leave none for others are refused") {
  TestNode node;
  const auto tried = [&](uint32_t number, uint64_t version_floor) {
    ClusterMap map = make_map(number, {1, 2, 0});
    map.version_floor = version_floor;
    return status(node.try_install(std::move(map)));
  };
  const auto floor_of = [](uint32_t number) { return uint64_t{number} << kCounterBits; };
  REQUIRE(tried(UINT32_MAX, floor_of(UINT32_MAX)) == "INVALID");
  REQUIRE(tried(2, UINT64_MAX) == "INVALID");
  REQUIRE(tried(1'000'000, floor_of(1'000'000) + 1000) == "OK");
}

TEST_CASE("a frame whose sizes contradict its header is refused") {
  TestNode node;
  const auto refused = [&](const std::function<void(RequestHeader&)>& change) {
    return status(node.send(Opcode::kRaiseFloor, encoded(RaiseFloorRequest{0, 1}), {}, change));
  };
  REQUIRE(refused({}) == "OK");
  REQUIRE(refused([](RequestHeader& h) { h.args_bytes = 5; }) == "INVALID");
  REQUIRE(refused([](RequestHeader& h) { h.body_bytes = 500; }) == "INVALID");
  REQUIRE(refused([](RequestHeader& h) { h.body_bytes = 1; }) == "INVALID");
}

}  // namespace elastripe::node::test
