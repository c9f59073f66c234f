// SHARD_UPDATE's touch, speculate and settle: parities are told what data was and is, in any order.
#include <algorithm>
#include <random>

#include "coding/gf.h"
#include "tests/unit/node/shard_update_calls.h"

namespace elastripe::node::test {
namespace {

using Range = ShardUpdateReply::Range;

constexpr uint32_t kMuch = 1 << 20;

struct Told {
  ShardUpdateReply args;
  std::vector<Change> originals;
  std::vector<Change> news;
};

Told touch(TestNode& node, const std::vector<Change>& changes, uint32_t limit = kMuch) {
  const Reply reply = update(node, Mode::kTouch, changes, limit);
  REQUIRE(status(reply) == "OK");
  Told told{.args = args_of<ShardUpdateReply>(reply), .originals = {}, .news = changes};
  size_t at = 0;
  for (const Range& range : told.args.ranges) {
    told.originals.push_back({range.offset, payload_of(reply).substr(at, range.length)});
    at += range.length;
  }
  REQUIRE(at == payload_of(reply).size());
  return told;
}

constexpr uint8_t kTimes = 3;

std::string speculate(TestNode& node, const Told& told, uint8_t source = 0) {
  ShardUpdateRequest request{kShard, Mode::kSpeculate, 0, {}, {}};
  std::string payload;
  for (const auto* changes : {&told.originals, &told.news}) {
    for (const Change& change : *changes) {
      request.extents.push_back({change.offset, static_cast<uint32_t>(change.bytes.size()),
                                 crc32c(as_view(change.bytes))});
      payload += change.bytes;
    }
  }
  request.source = source;
  request.epoch = told.args.epoch;
  request.serial = told.args.serial;
  request.originals = static_cast<uint32_t>(told.originals.size());
  request.coefficient = kTimes;
  return status(node.send(Opcode::kShardUpdate, encoded(request), payload));
}
std::string settle(TestNode& node, const ShardUpdateReply& flushed, uint8_t source = 0) {
  ShardUpdateRequest request{kShard, Mode::kSettle, 0, {}, {}};
  request.source = source;
  request.epoch = flushed.epoch;
  request.serial = flushed.serial;
  return status(node.send(Opcode::kShardUpdate, encoded(request)));
}
ShardUpdateReply flush(TestNode& node) {
  const Reply reply = update(node, Mode::kFlush, {});
  REQUIRE(status(reply) == "OK");
  return args_of<ShardUpdateReply>(reply);
}
std::string parity_of(const std::string& data) {
  std::string parity(data.size(), '\0');
  coding::multiply_add(kTimes, std::as_bytes(std::span(data)),
                       std::as_writable_bytes(std::span(parity)));
  return parity;
}

}  // namespace

TEST_CASE("a parity follows its data, whatever comes first of what it is told", "[update]") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const size_t bytes = GENERATE(100u, 4097u, 20'001u);
  TestNode data, parity;
  std::string expected = pattern(bytes);
  write(data, expected);
  write(parity, parity_of(expected));
  std::vector<Told> told;  // of several epochs
  std::vector<ShardUpdateReply> ended;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (int round = 0; round < 30; ++round) {
      std::vector<Change> changes;
      for (size_t at = random() % bytes; at < bytes; at += 1 + random() % 10'000) {
        const size_t length = std::min<size_t>(1 + random() % 300, bytes - at);
        changes.push_back({static_cast<uint32_t>(at), pattern(length, random())});
        expected.replace(at, length, changes.back().bytes);
        at += length;
      }
      told.push_back(touch(data, changes));
      REQUIRE(told.back().args.serial == static_cast<uint64_t>(round) + 1);
    }
    REQUIRE(read(data) == expected);
    ended.push_back(flush(data));
    REQUIRE(ended.back().epoch == told.back().args.epoch);
    REQUIRE(ended.back().serial == 30);
  }
  CHECK(flush(data).epoch == 0);
  std::ranges::shuffle(told, random);
  std::ranges::shuffle(ended, random);
  for (size_t i = 0; i < told.size(); ++i) {
    if (i % 40 == 20) REQUIRE(settle(parity, ended[i / 40]) == "OK");
    CHECK(speculate(parity, told[i]) == "OK");
  }
  REQUIRE(settle(parity, ended.back()) == "OK");
  CHECK(read(parity) == parity_of(expected));
  CHECK(parity.stat("log_bytes") == 0);
  CHECK(data.stat("log_bytes") == 0);
}

TEST_CASE("what was there is told once, as lines", "[update]") {
  TestNode node;
  write(node, pattern(1000));
  const Told first = touch(node, {{70, "abc"}, {990, "x"}});
  CHECK(first.args.ranges == std::vector<Range>{{64, 64}, {960, 40}});
  CHECK(first.originals[0].bytes == pattern(1000).substr(64, 64));
  CHECK(touch(node, {{80, "abc"}}).args.ranges.empty());
  CHECK(touch(node, {{120, std::string(20, 'a')}}).args.ranges == std::vector<Range>{{128, 64}});
  CHECK(flush(node).serial == 3);
  const Told next = touch(node, {{70, "def"}});
  CHECK(next.args.epoch != first.args.epoch);
  CHECK(next.args.serial == 1);
  CHECK(next.originals[0].bytes.substr(6, 3) == "abc");
}

TEST_CASE("an epoch has so many bytes, and what is more by itself is told as a change",
          "[update]") {
  TestNode node;
  write(node, std::string(1000, '\0'));
  REQUIRE(touch(node, {{0, std::string(60, 'a')}}, 100).args.epoch != 0);
  CHECK(status(update(node, Mode::kTouch, {{0, std::string(41, 'b')}}, 100)) == "LOG_FULL");
  CHECK(read(node)[0] == 'a');
  CHECK(flush(node).serial == 1);
  const Told told = touch(node, {{0, std::string(101, 'b')}}, 100);
  CHECK(told.args.epoch == 0);
  CHECK(told.originals[0].bytes == std::string(60, 'a' ^ 'b') + std::string(41, 'b'));
  CHECK(flush(node).epoch == 0);
}

TEST_CASE("an epoch that is complete waits for memory, and goes with its shard", "[update]") {
  TestNode node;
  write(node, std::string(1000, '\0'));
  const Told told{.args = {{}, 7, 1}, .originals = {{0, "\1"}}, .news = {{0, "\2"}}};
  REQUIRE(speculate(node, told) == "OK");
  CHECK(node.stat("log_bytes") == 2);
  SECTION("memory") {
    {
      const ItemRef reader = node.store.find(shard_item_key(kShard));
      node.hooked.has_room = [](std::string_view) { return false; };
      CHECK(settle(node, {{}, 7, 1}) == "NO_SPACE");
    }
    node.hooked.has_room = nullptr;
    CHECK(status(update(node, Mode::kFold, {})) == "OK");
    CHECK(read(node)[0] == static_cast<char>(coding::gf_multiply(kTimes, 3)));
  }
  SECTION("another shard has another epoch of that number") {
    CHECK(settle(node, {{}, 7, 1}, 1) == "OK");
    CHECK(read(node)[0] == '\0');
    REQUIRE(status(node.send(Opcode::kShardDelete, encoded(ShardDeleteRequest{{kShard}, 0}))) ==
            "OK");
  }
  CHECK(node.stat("log_bytes") == 0);
}

}  // namespace elastripe::node::test
