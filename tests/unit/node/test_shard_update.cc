// SHARD_UPDATE: shards that change in place, and what is kept to be added to parities; and
// LOG_APPEND without bytes, which numbers such a change.
#include <random>

#include "coding/gf.h"
#include "tests/unit/node/shard_update_calls.h"

namespace elastripe::node::test {

TEST_CASE("bytes that are swapped or added in place have their pages' checksums", "[update]") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const size_t bytes : {1u, 4095u, 4096u, 4097u, 100'001u}) {
    TestNode node({1, 2, 3});  // home of nothing
    std::string expected = pattern(bytes);
    write(node, expected);
    const uint64_t used = node.store.memory().used_bytes;
    for (int round = 0; round < 30; ++round) {
      std::vector<Change> changes;
      std::string told;
      const bool swaps = round % 2 == 0;
      for (size_t at = random() % bytes; at < bytes;) {
        const size_t length = std::min<size_t>(1 + random() % 6000, bytes - at);
        const std::string fresh = pattern(length, random());
        const std::string old = expected.substr(at, length);
        changes.push_back({static_cast<uint32_t>(at), fresh});
        told += sum(old, fresh);
        expected.replace(at, length, swaps ? fresh : sum(old, fresh));
        at += length + (random() % 3 == 0 ? 0 : random() % 6000);
      }
      const Reply reply = update(node, swaps ? Mode::kSwap : Mode::kAdd, changes);
      REQUIRE(status(reply) == "OK");
      REQUIRE(payload_of(reply) == (swaps ? told : ""));
      REQUIRE(read(node) == expected);
    }
    CHECK(node.store.memory().used_bytes == used);
    CHECK(node.stat("shards") == 1);
  }
}

TEST_CASE("who has found a shard before it changes reads what it was", "[update]") {
  TestNode node;
  const std::string before = pattern(10'000);
  write(node, before);
  {
    const ItemRef reader = node.store.find(shard_item_key(kShard));
    REQUIRE(status(update(node, Mode::kSwap, {{5000, "changed"}})) == "OK");
    CHECK(stored(node, reader) == before);
    CHECK(read(node).substr(5000, 7) == "changed");
  }
  REQUIRE(status(update(node, Mode::kSwap, {{5000, "again!!"}})) == "OK");
  CHECK(read(node).substr(5000, 7) == "again!!");
  CHECK(node.stat("shards") == 1);
  CHECK(node.stat("shard_changes") == 2);
  CHECK(node.stat("shard_changed_bytes") == 14);
}

TEST_CASE("no memory for a copy is a clean refusal", "[update]") {
  TestNode node;
  write(node, pattern(10'000));
  const ItemRef reader = node.store.find(shard_item_key(kShard));
  node.hooked.has_room = [](std::string_view) { return false; };
  CHECK(status(update(node, Mode::kSwap, {{1, "x"}})) == "NO_SPACE");
  CHECK(read(node) == pattern(10'000));
}

TEST_CASE("what can not be changed in place is refused, and stays", "[update]") {
  TestNode node;
  CHECK(status(update(node, Mode::kSwap, {{0, "x"}})) == "NOT_HERE");
  CHECK(status(update(node, Mode::kLog, {{0, "x"}})) == "NOT_HERE");
  CHECK(status(update(node, Mode::kCollect, {{0, "x"}}, 1000, "\1")) == "NOT_HERE");
  write(node, pattern(10'000));
  for (const Mode mode : {Mode::kSwap, Mode::kAdd, Mode::kLog}) {
    CHECK(status(update(node, mode, {{9'999, "xy"}})) == "INVALID");
    CHECK(status(update(node, mode, {{UINT32_MAX, "x"}})) == "INVALID");
    CHECK(status(update(node, mode, {{5, "xy"}, {6, "z"}})) == "INVALID");
    CHECK(status(update(node, mode, {{5, "xy"}}, 0, "\1")) == "INVALID");
    CHECK(status(update(node, mode, {{5, ""}})) == "INVALID");
  }
  ShardUpdateRequest damaged{kShard, Mode::kSwap, 0, {{0, 1, 77}}, {}};
  CHECK(status(node.send(Opcode::kShardUpdate, encoded(damaged), "x")) == "INVALID");
  damaged.extents[0].crc32c = crc32c(as_view("x"));
  CHECK(status(node.send(Opcode::kShardUpdate, encoded(damaged), "xy")) == "INVALID");
  CHECK(status(node.send(Opcode::kShardUpdate, encoded(damaged), "")) == "INVALID");
  CHECK(read(node) == pattern(10'000));
  // Memory that fails: bytes must not get a checksum beside others that have gone bad.
  {
    const ItemRef item = node.store.find(shard_item_key(kShard));
    node.store.write(item, read_shard_item(node.store, item)->payload_at + 5000, as_view("?"));
  }
  CHECK(status(update(node, Mode::kSwap, {{4200, "x"}})) == "BAD_PAGE");
  CHECK(status(update(node, Mode::kSwap, {{0, "x"}})) == "OK");
}

TEST_CASE("the log of a parity shard is in whatever is read of it", "[update]") {
  TestNode node;
  std::string expected = pattern(10'000);
  write(node, expected);
  const std::vector<Change> changes = {
      {0, pattern(5000, 1)}, {4000, pattern(300, 2)}, {9'990, pattern(10, 3)}, {4000, "once more"}};
  for (const Change& change : changes) {
    REQUIRE(status(update(node, Mode::kLog, {change})) == "OK");
    expected.replace(change.offset, change.bytes.size(),
                     sum(expected.substr(change.offset, change.bytes.size()), change.bytes));
  }
  CHECK(stored(node) == pattern(10'000));
  SECTION("a read folds it") {
    CHECK(read(node) == expected);
    CHECK(stored(node) == expected);
  }
  SECTION("so does the node, soon") {
    node.engine.tick();
    CHECK(stored(node) == expected);
  }
  SECTION("so does who is told to") {
    CHECK(status(update(node, Mode::kFold, {})) == "OK");
    CHECK(stored(node) == expected);
    CHECK(status(update(node, Mode::kFold, {})) == "OK");
  }
  SECTION("without memory it is no parity") {
    const ItemRef reader = node.store.find(shard_item_key(kShard));
    node.hooked.has_room = [](std::string_view) { return false; };
    CHECK(read(node) == "NOT_HERE");
    node.hooked.has_room = nullptr;
    CHECK(read(node) == expected);
  }
  SECTION("it goes with the shard") {
    REQUIRE(status(node.send(Opcode::kShardDelete, encoded(ShardDeleteRequest{{kShard}, 0}))) ==
            "OK");
    write(node, pattern(10'000));
    CHECK(read(node) == pattern(10'000));
  }
}

TEST_CASE("a log of fixed size is folded by the request that finds it full", "[update]") {
  TestNode node;
  write(node, std::string(1000, '\0'));
  REQUIRE(status(update(node, Mode::kLog, {{0, std::string(60, 'a')}}, 100)) == "OK");
  node.engine.tick();  // it waits for a request
  CHECK(stored(node) == std::string(1000, '\0'));
  REQUIRE(status(update(node, Mode::kLog, {{100, std::string(60, 'b')}}, 100)) == "OK");
  CHECK(stored(node) == std::string(60, 'a') + std::string(940, '\0'));
  // What is larger than all of it goes into the shard.
  REQUIRE(status(update(node, Mode::kLog, {{500, std::string(101, 'c')}}, 100)) == "OK");
  CHECK(stored(node).substr(500, 101) == std::string(101, 'c'));
  CHECK(read(node).substr(100, 60) == std::string(60, 'b'));
}

TEST_CASE("a log goes into the shard where units have no room for it", "[update]") {
  TestNode node({1, 2, 0}, {}, {.log_units = 0});
  write(node, std::string(1000, '\0'));
  REQUIRE(status(update(node, Mode::kLog, {{0, "abc"}})) == "OK");
  CHECK(stored(node).substr(0, 3) == "abc");
  CHECK(status(update(node, Mode::kCollect, {{0, "abc"}}, 1000, "\1")) == "LOG_FULL");
}

TEST_CASE("what is collected is told once, as changes of each parity", "[update]") {
  TestNode node;
  write(node, std::string(1000, '\0'));
  const std::string coefficients = "\1\1\1\2";  // of two data shards, at two parities
  REQUIRE(status(update(node, Mode::kCollect, {{10, "abcd"}, {12, "efgh"}}, 100, coefficients)) ==
          "OK");
  REQUIRE(status(update(node, Mode::kCollect, {{500, "z"}}, 100, "\3\4")) == "OK");
  CHECK(status(update(node, Mode::kCollect, {{0, std::string(92, 'x')}}, 100, "\1\1")) ==
        "LOG_FULL");
  CHECK(read(node) == std::string(1000, '\0'));
  const Reply taken = update(node, Mode::kTake, {});
  REQUIRE(status(taken) == "OK");
  using Range = ShardUpdateReply::Range;
  CHECK(args_of<ShardUpdateReply>(taken).ranges == std::vector<Range>{{10, 6}, {500, 1}});
  std::string expected;
  for (const int parity : {0, 1}) {
    std::string changes(6, '\0');
    for (size_t i = 0; i < 4; ++i) {
      changes[i] = static_cast<char>(changes[i] ^ "abcd"[i]);
      const auto times = static_cast<uint8_t>(coefficients[2 + static_cast<size_t>(parity)]);
      changes[i + 2] = static_cast<char>(
          changes[i + 2] ^ coding::gf_multiply(times, static_cast<uint8_t>("efgh"[i])));
    }
    expected += changes;
    expected += static_cast<char>(coding::gf_multiply(parity == 0 ? 3 : 4, 'z'));
  }
  CHECK(payload_of(taken) == expected);
  const Reply again = update(node, Mode::kTake, {});
  CHECK(status(again) == "OK");
  CHECK(args_of<ShardUpdateReply>(again).ranges.empty());
  CHECK(payload_of(again).empty());
}

TEST_CASE("an update without bytes gets a number, and leaves the log empty", "[update]") {
  LogNode node(kAsTail);
  const auto number = [&](uint64_t cas = 0, uint64_t behind = 0) {
    LogAppendRequest request = node.append_request(7);
    request.known = node.version + behind;
    request.cas = cas;
    return node.append(request, "");
  };
  const Reply first = number();
  REQUIRE(status(first) == "OK");
  CHECK(args_of<LogAppendReply>(first).lsn == node.version + 1);
  CHECK(args_of<LogAppendReply>(number()).lsn == node.version + 2);
  CHECK(status(number(node.version + 1)) == "CONDITION_FAILED");
  CHECK(args_of<LogAppendReply>(number(node.version + 2)).lsn == node.version + 3);
  const Reply other = number(0, 1);
  CHECK(status(other) == "OTHER_VALUE");  // of another record
  CHECK(record_of(other).meta.version == node.version);
  // A log that has bytes lies over what would change.
  LogAppendRequest bytes = node.append_request(0);
  REQUIRE(status(node.append(bytes, "bytes")) == "OK");
  CHECK(status(number()) == "LOG_FULL");
}

TEST_CASE("the head is told numbers, so that it knows the cas", "[update]") {
  LogNode node(kAsHead);
  REQUIRE(status(node.store({}, 5)) == "OK");
  CHECK(node.image().last == node.version + 5);
  CHECK(node.log() == " | ");
}

}  // namespace elastripe::node::test
