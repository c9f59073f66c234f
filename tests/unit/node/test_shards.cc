// Shards: immutable, checked page by page, served whatever partitions do.
#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/delayed_deletions.h"
#include "server-patches/node/engine/item_formats.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

const ShardName kShard{{11, 12}, 3, 0, 1};

std::string pattern(size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 7 + i / 256);
  return out;
}

Reply write(TestNode& node, const ShardName& name, std::string_view bytes) {
  const ShardHeader header{
      .name = name, .key = "owner", .payload_bytes = static_cast<uint32_t>(bytes.size())};
  return node.send(Opcode::kShardWrite, encoded(ShardWriteRequest{header}), bytes);
}
Reply read(TestNode& node, const ShardName& name, uint32_t offset = 0, uint32_t length = 0) {
  return node.send(Opcode::kShardRead, encoded(ShardReadRequest{name, offset, length}));
}
ShardConfirmReply::Entry confirm(TestNode& node, const ShardName& name) {
  return args_of<ShardConfirmReply>(
             node.send(Opcode::kShardConfirm, encoded(ShardConfirmRequest{{name}, true})))
      .entries.at(0);
}
// Flips a bit of the stored payload, as bad memory would.
void damage(TestNode& node, const ShardName& name, size_t offset) {
  const ItemRef item = node.store.find(shard_item_key(name));
  const auto layout = read_shard_item(node.store, item);
  REQUIRE(layout);
  std::byte byte;
  node.store.read(item, layout->payload_at + offset, {&byte, 1});
  byte ^= std::byte{4};
  node.store.write(item, layout->payload_at + offset, {&byte, 1});
}

}  // namespace

TEST_CASE("a shard is read back whole and in any range") {
  TestNode node({1, 2, 3});  // home of nothing
  const auto bytes = GENERATE(as<size_t>{}, 0, 1, 4095, 4096, 4097, 3 * 4096, 100'000);
  const std::string payload = pattern(bytes);
  const Reply written = write(node, kShard, payload);
  REQUIRE(status(written) == "OK");
  REQUIRE(args_of<ShardWriteReply>(written).crc32c == crc32c(as_view(payload)));
  REQUIRE(payload_of(read(node, kShard)) == payload);
  for (const uint32_t offset : {0u, 1u, 4095u, 4096u, 5000u}) {
    for (const uint32_t length : {1u, 4096u, 8192u}) {
      const Reply part = read(node, kShard, offset, length);
      if (offset + length > bytes) {
        REQUIRE(status(part) == "INVALID");
      } else {
        REQUIRE(payload_of(part) == payload.substr(offset, length));
      }
    }
  }
  REQUIRE(status(read(node, kShard, static_cast<uint32_t>(bytes))) == "OK");
  REQUIRE(status(read(node, kShard, static_cast<uint32_t>(bytes) + 1)) == "INVALID");
  REQUIRE(status(read(node, kShard, UINT32_MAX, UINT32_MAX)) == "INVALID");
}

TEST_CASE("SHARD_CONFIRM checks a bounded number of bytes, and at least one shard") {
  TestNode node({1, 2, 0}, {}, {.confirm_bytes = 1000});
  std::vector<ShardName> names;
  for (uint8_t i = 0; i < 5; ++i) names.push_back({{1, 2}, 0, 0, i});
  for (const size_t n : {0u, 1u, 3u, 4u}) write(node, names[n], pattern(n == 4 ? 5000 : 400));
  const auto confirmed = [&](std::vector<ShardName> asked, bool check_pages) {
    const ShardConfirmRequest request{std::move(asked), check_pages};
    return args_of<ShardConfirmReply>(node.send(Opcode::kShardConfirm, encoded(request))).entries;
  };
  const auto first = confirmed(names, true);
  REQUIRE(first.size() == 3);
  REQUIRE(first[1].present);
  REQUIRE_FALSE(first[2].present);
  const auto rest = confirmed({names[3], names[4]}, true);
  REQUIRE(rest.size() == 1);
  REQUIRE(rest[0].present);
  REQUIRE(confirmed({names[4]}, true).at(0).present);
  REQUIRE(confirmed(names, false).size() == 5);
}

TEST_CASE("a shard that is not there is an erasure") {
  TestNode node;
  write(node, kShard, "bytes");
  ShardName other = kShard;
  other.generation = 1;
  REQUIRE(status(read(node, other)) == "NOT_HERE");
}

TEST_CASE("the same shard may be written twice, other bytes under its name may not") {
  TestNode node;
  write(node, kShard, pattern(5000));
  REQUIRE(status(write(node, kShard, pattern(5000))) == "OK");
  std::string other = pattern(5000);
  other[4999] = static_cast<char>(other[4999] ^ 1);
  REQUIRE(status(write(node, kShard, other)) == "EXISTS");
  REQUIRE(status(write(node, kShard, pattern(4999))) == "EXISTS");
  REQUIRE(payload_of(read(node, kShard)) == pattern(5000));
  REQUIRE(node.stat("shards") == 1);
}

TEST_CASE("a shard whose length is not its header's is refused") {
  TestNode node;
  const ShardHeader header{.name = kShard, .key = "owner", .payload_bytes = 4};
  REQUIRE(status(node.send(Opcode::kShardWrite, encoded(ShardWriteRequest{header}), "five!")) ==
          "INVALID");
}

TEST_CASE("a bad page is an erasure for reads that touch it, and a new copy heals it") {
  TestNode node;
  const std::string payload = pattern(3 * 4096);
  write(node, kShard, payload);
  damage(node, kShard, 5000);
  REQUIRE(status(read(node, kShard)) == "BAD_PAGE");
  REQUIRE(status(read(node, kShard, 8191, 1)) == "BAD_PAGE");
  REQUIRE(payload_of(read(node, kShard, 0, 4096)) == payload.substr(0, 4096));
  REQUIRE(payload_of(read(node, kShard, 8192)) == payload.substr(8192));
  REQUIRE_FALSE(confirm(node, kShard).present);
  REQUIRE(node.stat("bad_pages") == 3);
  REQUIRE(status(write(node, kShard, payload)) == "OK");
  REQUIRE(payload_of(read(node, kShard)) == payload);
  REQUIRE(node.stat("shards") == 1);
}

TEST_CASE("confirm tells which shards are here intact, in the order asked") {
  TestNode node;
  write(node, kShard, "bytes");
  ShardName other = kShard;
  other.index = 9;
  const auto reply = args_of<ShardConfirmReply>(
      node.send(Opcode::kShardConfirm, encoded(ShardConfirmRequest{{other, kShard}, true})));
  REQUIRE(reply.entries.size() == 2);
  REQUIRE_FALSE(reply.entries[0].present);
  REQUIRE(reply.entries[1].present);
  REQUIRE(reply.entries[1].crc32c == crc32c(as_view("bytes")));
  REQUIRE(reply.entries[1].payload_bytes == 5);
}

TEST_CASE("delete removes the shards that are here and counts them") {
  TestNode node;
  const uint64_t used = node.store.memory().used_bytes;
  write(node, kShard, "bytes");
  ShardName other = kShard;
  other.index = 9;
  const auto remove = [&] {
    return args_of<ShardDeleteReply>(
               node.send(Opcode::kShardDelete, encoded(ShardDeleteRequest{{other, kShard}})))
        .deleted;
  };
  REQUIRE(remove() == 1);
  REQUIRE(remove() == 0);
  REQUIRE(status(read(node, kShard)) == "NOT_HERE");
  REQUIRE(node.store.memory().used_bytes == used);
  REQUIRE(node.stat("shards") == 0);
  REQUIRE(node.stat("shard_bytes") == 0);
}

TEST_CASE("shards that shall be deleted later go by the node's clock, whatever comes meanwhile") {
  TestNode node;
  write(node, kShard, "bytes");
  ShardName other = kShard;
  other.index = 9;
  const auto listed = [&] {
    return args_of<ShardScanReply>(
               node.send(Opcode::kShardScan, encoded(ShardScanRequest{.max_entries = 9})))
        .shards.size();
  };
  REQUIRE(listed() == 1);
  const auto later = encoded(ShardDeleteRequest{{other, kShard}, 1000});
  REQUIRE(args_of<ShardDeleteReply>(node.send(Opcode::kShardDelete, later)).deleted == 1);
  REQUIRE(listed() == 0);
  node.clock.now_ms += 500;
  REQUIRE(status(node.send(Opcode::kShardDelete, later)) == "OK");
  node.clock.now_ms += 499;
  node.engine.tick();
  REQUIRE(status(read(node, kShard)) == "OK");
  node.install(make_map(2, {1, 2, 3}));  // without a lease
  node.clock.now_ms += 1;
  node.engine.tick();
  REQUIRE(node.stat("shards") == 0);
}

TEST_CASE("a bounded number of shards waits to be deleted, those that are due first go first") {
  DelayedDeletions deletions(3);
  const auto named = [](uint8_t index) {
    ShardName name = kShard;
    name.index = index;
    return name;
  };
  REQUIRE(deletions.add(200, {named(1), named(2)}));
  REQUIRE_FALSE(deletions.add(100, {named(3), named(4)}));
  REQUIRE(deletions.add(100, {named(3)}));
  REQUIRE(deletions.has(named(3)));
  REQUIRE_FALSE(deletions.has(named(4)));
  REQUIRE(deletions.take_due(99, 10).empty());
  REQUIRE(deletions.take_due(200, 1) == std::vector<ShardName>{named(3)});
  REQUIRE(deletions.add(300, {named(4)}));
  REQUIRE(deletions.take_due(200, 10) == std::vector<ShardName>{named(1), named(2)});
}

TEST_CASE("a deletion is not put off for longer than a day") {
  TestNode node;
  REQUIRE(status(node.send(Opcode::kShardDelete,
                           encoded(ShardDeleteRequest{{kShard}, kMaxDeletionDelay_ms}))) == "OK");
  REQUIRE(status(node.send(Opcode::kShardDelete,
                           encoded(ShardDeleteRequest{{kShard}, kMaxDeletionDelay_ms + 1}))) ==
          "INVALID");
}

TEST_CASE("requests with too many names are refused") {
  TestNode node;
  const std::vector<ShardName> names(4097, kShard);
  REQUIRE(status(node.send(Opcode::kShardConfirm, encoded(ShardConfirmRequest{names, true}))) ==
          "INVALID");
  REQUIRE(status(node.send(Opcode::kShardDelete, encoded(ShardDeleteRequest{names}))) == "INVALID");
}

TEST_CASE("without memory a shard is refused and the others stay") {
  TestNode node({1, 2, 3}, {.limit_bytes = 20'000, .reserve_bytes = 5000, .buckets = 16});
  write(node, kShard, pattern(10'000));
  ShardName other = kShard;
  other.index = 2;
  const Reply full = write(node, other, pattern(6000));
  REQUIRE(status(full) == "NO_SPACE");
  REQUIRE(full.header.free_bytes < 6000);
  REQUIRE(status(read(node, other)) == "NOT_HERE");
  REQUIRE(payload_of(read(node, kShard)) == pattern(10'000));
}

TEST_CASE("shards survive a map under which records are forgotten") {
  TestNode node({0, 1, 2});
  write(node, kShard, "bytes");
  node.install(make_map(2, {1, 2, 3}));
  node.grant();
  for (int i = 0; i < 10; ++i) node.engine.tick();
  REQUIRE(payload_of(read(node, kShard)) == "bytes");
}

namespace {

Reply build(TestNode& node, const ShardName& source, const ShardName& target,
            std::vector<ShardBuildRequest::Block> blocks, std::string_view deltas) {
  const ShardHeader header{
      .name = target, .key = "owner", .payload_bytes = static_cast<uint32_t>(blocks.size() * 4)};
  const ShardBuildRequest request{source, header, 4, std::move(blocks)};
  return node.send(Opcode::kShardBuild, encoded(request), deltas);
}

}  // namespace

TEST_CASE("a shard is built out of blocks of an older one and of deltas") {
  TestNode node({1, 2, 3});
  ShardName next = kShard;
  next.txid = {13, 14};
  next.generation = 1;
  REQUIRE(status(build(node, kShard, next, {{{0}, {}}}, "")) == "NOT_HERE");
  REQUIRE(status(write(node, kShard, "aaaabbbbcccc")) == "OK");

  const Reply built =
      build(node, kShard, next, {{{0}, {}}, {{0, 2}, {1}}, {{}, {0}}, {{}, {}}}, "12345678");
  REQUIRE(status(built) == "OK");
  std::string mixed = "5678";
  for (char& c : mixed) c = static_cast<char>(c ^ 'a' ^ 'c');
  const std::string expected = "aaaa" + mixed + "1234" + std::string(4, '\0');
  CHECK(payload_of(read(node, next)) == expected);
  CHECK(args_of<ShardWriteReply>(built).crc32c == crc32c(as_view(expected)));
  CHECK(payload_of(read(node, kShard)) == "aaaabbbbcccc");

  SECTION("a late copy is the same, other bytes of the name are not") {
    CHECK(status(build(node, kShard, next, {{{0}, {}}, {{0, 2}, {1}}, {{}, {0}}, {{}, {}}},
                       "12345678")) == "OK");
    CHECK(status(build(node, kShard, next, {{{1}, {}}}, "")) == "EXISTS");
  }
  SECTION("blocks that are not there are refused") {
    ShardName other = next;
    other.generation = 2;
    CHECK(status(build(node, kShard, other, {{{3}, {}}}, "")) == "INVALID");
    CHECK(status(build(node, kShard, other, {{{0}, {2}}}, "12345678")) == "INVALID");
    CHECK(status(build(node, kShard, other, {{{0}, {0}}}, "12345")) == "INVALID");
    CHECK(status(build(node, kShard, other, {}, "")) == "INVALID");
    // a block named again and again would cost time without end
    CHECK(status(build(node, kShard, other, {{{0, 0}, {}}}, "")) == "INVALID");
    CHECK(status(build(node, kShard, other, {{{}, {1, 0}}}, "12345678")) == "INVALID");
    CHECK(status(read(node, other)) == "NOT_HERE");
  }
  SECTION("a bad page of the source is told, and nothing is built from it") {
    ShardName other = next;
    other.generation = 2;
    damage(node, kShard, 5);
    CHECK(status(build(node, kShard, other, {{{0}, {}}}, "")) == "BAD_PAGE");
    CHECK(status(read(node, other)) == "NOT_HERE");
    CHECK(status(build(node, kShard, other, {{{}, {0}}}, "1234")) == "OK");
    CHECK(payload_of(read(node, other)) == "1234");
  }
}

}  // namespace elastripe::node::test
