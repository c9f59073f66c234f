// SHARD_UPDATE's keep and flush: a data shard's node tells later by how much it has changed; hold
// and drop: another node has the bytes until then.
#include <random>

#include "tests/unit/node/shard_update_calls.h"

namespace elastripe::node::test {
namespace {

using Range = ShardUpdateReply::Range;

constexpr uint32_t kMuch = 1 << 20;

// What a reply tells, added to bytes that are as long as the shard.
void add_told(std::string& to, const Reply& reply) {
  const auto ranges = args_of<ShardUpdateReply>(reply).ranges;
  const std::string payload = payload_of(reply);
  size_t at = 0;
  for (const Range& range : ranges) {
    const std::string bytes = payload.substr(at, range.length);
    to.replace(range.offset, range.length, sum(to.substr(range.offset, range.length), bytes));
    at += range.length;
  }
  REQUIRE(at == payload.size());
}
Reply flush(TestNode& node, uint32_t left = 0) { return update(node, Mode::kFlush, {}, left); }
std::vector<Range> ranges_of(const Reply& reply) {
  REQUIRE(status(reply) == "OK");
  return args_of<ShardUpdateReply>(reply).ranges;
}
Reply drop(TestNode& node, const std::vector<Range>& ranges) {
  ShardUpdateRequest request{kShard, Mode::kDrop, 0, {}, {}};
  for (const Range& range : ranges) request.extents.push_back({range.offset, range.length, 0});
  return node.send(Opcode::kShardUpdate, encoded(request));
}

}  // namespace

TEST_CASE("all that a shard has changed by is told once, now or when it is flushed", "[update]") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const size_t bytes = GENERATE(100u, 4097u, 100'001u);
  const size_t units = GENERATE(0u, 1u, 20u);  // without room, it is told at once
  TestNode node({1, 2, 0}, {}, {.log_unit_bytes = 16 << 10, .log_units = units});
  const std::string before = pattern(bytes);
  write(node, before);
  std::string expected = before;
  std::string parity(bytes, '\0');  // what it is told
  for (int round = 0; round < 200; ++round) {
    std::vector<Change> changes;
    std::string as_before = expected;
    for (size_t at = random() % bytes; at < bytes; at += 1 + random() % 30'000) {
      const size_t length = std::min<size_t>(1 + random() % 5000, bytes - at);
      changes.push_back({static_cast<uint32_t>(at), pattern(length, random())});
      expected.replace(at, length, changes.back().bytes);
      at += length;
    }
    const Mode mode = round % 7 == 6 ? Mode::kSwap : Mode::kKeep;
    const Reply reply = update(node, mode, changes, 40'000);
    if (status(reply) == "LOG_FULL") {
      expected = as_before;
      REQUIRE(read(node) == expected);
      const uint32_t left = random() % 2 == 0 ? 0 : random() % 40'000;
      const Reply flushed = flush(node, left);
      REQUIRE((left > 0 || !ranges_of(flushed).empty()));
      add_told(parity, flushed);
      continue;
    }
    REQUIRE(status(reply) == "OK");
    REQUIRE(read(node) == expected);
    if (mode == Mode::kKeep) {
      add_told(parity, reply);
      continue;
    }
    size_t at = 0;
    for (const Change& change : changes) {
      const std::string told = payload_of(reply).substr(at, change.bytes.size());
      parity.replace(change.offset, told.size(),
                     sum(parity.substr(change.offset, told.size()), told));
      at += told.size();
    }
  }
  add_told(parity, flush(node));
  CHECK(sum(before, parity) == expected);
  CHECK(ranges_of(flush(node)).empty());
  CHECK(node.stat("log_bytes") == 0);
}

TEST_CASE("the pages that were written last stay", "[update]") {
  TestNode node;
  write(node, std::string(40'000, '\0'));
  const auto keep = [&](uint32_t offset, const std::string& bytes) {
    return status(update(node, Mode::kKeep, {{offset, bytes}}, 4 * kPageBytes));
  };
  for (const uint32_t page : {3u, 0u, 1u, 2u}) REQUIRE(keep(page * kPageBytes + 70, "a") == "OK");
  REQUIRE(keep(3 * kPageBytes + 200, "b") == "OK");
  CHECK(keep(4 * kPageBytes, "c") == "LOG_FULL");
  CHECK(read(node)[4 * kPageBytes] == '\0');
  CHECK(keep(0, "d") == "OK");  // takes no room
  const Reply told = flush(node, 2 * kPageBytes + 5);
  CHECK(ranges_of(told) == std::vector<Range>{{kPageBytes + 64, 64}, {2 * kPageBytes + 64, 64}});
  CHECK(payload_of(told)[6] == 'a');
  CHECK(keep(4 * kPageBytes, "c") == "OK");
  CHECK(ranges_of(flush(node)) ==
        std::vector<Range>{
            {0, 128}, {3 * kPageBytes + 64, 64}, {3 * kPageBytes + 192, 64}, {4 * kPageBytes, 64}});
}

TEST_CASE("a change that is larger than all that may be kept is told at once", "[update]") {
  TestNode node;
  write(node, std::string(40'000, '\0'));
  const Reply told = update(node, Mode::kKeep, {{10, std::string(9000, 'a')}}, 2 * kPageBytes);
  CHECK(ranges_of(told) == std::vector<Range>{{10, 9000}});
  CHECK(payload_of(told) == std::string(9000, 'a'));
  CHECK(ranges_of(flush(node)).empty());
}

TEST_CASE("pages of a damaged shard are not told", "[update]") {
  TestNode node;
  write(node, std::string(10'000, '\0'));
  REQUIRE(status(update(node, Mode::kKeep, {{5000, "a"}}, kMuch)) == "OK");
  const ItemRef item = node.store.find(shard_item_key(kShard));
  const size_t place = read_shard_item(node.store, item)->payload_at + 6000;
  node.store.write(item, place, as_view("?"));
  CHECK(status(flush(node)) == "BAD_PAGE");
  node.store.write(item, place, as_view(std::string_view("\0", 1)));
  CHECK(payload_of(flush(node))[5000 % 64] == 'a');
}

TEST_CASE("held bytes are the newest of each place, until they are dropped", "[update]") {
  TestNode node;
  CHECK(status(update(node, Mode::kHold, {{0, "x"}})) == "NOT_HERE");
  write(node, std::string(1000, '\0'));
  const auto hold = [&](uint32_t offset, size_t length) {
    REQUIRE(status(update(node, Mode::kHold, {{offset, std::string(length, 'x')}})) == "OK");
    return node.stat("log_bytes");
  };
  // They are those of another shard, which may be longer.
  CHECK(hold(5000, 100) == 100);
  CHECK(hold(5050, 100) == 150);
  CHECK(hold(5000, 100) == 150);
  CHECK(hold(5020, 10) == 150);
  CHECK(hold(4990, 300) == 300);
  CHECK(hold(100, 20) == 320);
  CHECK(read(node) == std::string(1000, '\0'));
  CHECK(ranges_of(drop(node, {{0, 110}, {5000, 50}})).empty());
  CHECK(node.stat("log_bytes") == 260);
  REQUIRE(status(update(node, Mode::kCollect, {{0, "abc"}}, 1000, "\1")) == "OK");
  SECTION("all") {
    CHECK(status(drop(node, {})) == "OK");
    CHECK(node.stat("log_bytes") == 260);
    CHECK(status(drop(node, {{0, UINT32_MAX}})) == "OK");
    CHECK(payload_of(update(node, Mode::kTake, {})).empty());
  }
  SECTION("with the shard") {
    REQUIRE(status(update(node, Mode::kKeep, {{0, "abc"}}, kMuch)) == "OK");
    REQUIRE(status(node.send(Opcode::kShardDelete, encoded(ShardDeleteRequest{{kShard}, 0}))) ==
            "OK");
  }
  CHECK(node.stat("log_bytes") == 0);
  CHECK(status(drop(node, {{1, 2}})) == "OK");
}

TEST_CASE("held bytes find room beyond the units of new updates", "[update]") {
  TestNode node({1, 2, 0}, {}, {.log_units = 0});
  write(node, std::string(1000, '\0'));
  CHECK(status(update(node, Mode::kHold, {{0, "abc"}})) == "OK");
  CHECK(node.stat("log_bytes") == 3);
  node.hooked.has_room = [](std::string_view) { return false; };
  CHECK(status(update(node, Mode::kHold, {{0, std::string(65'400, 'x')}})) == "LOG_FULL");
}

}  // namespace elastripe::node::test
