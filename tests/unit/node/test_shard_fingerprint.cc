// SHARD_FINGERPRINT: what the blocks of shards come to, and whether their pages are intact.
#include "server-patches/node/engine/item_formats.h"
#include "server-patches/node/format/crc32c.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

constexpr coding::FingerprintSeed kSeed{5, 6};

ShardName name_of(uint8_t index) { return {{11, 12}, 3, 0, index}; }

std::string pattern(size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 7 + i / 256);
  return out;
}

void write(TestNode& node, uint8_t index, std::string_view bytes) {
  const ShardHeader header{
      .name = name_of(index), .key = "owner", .payload_bytes = static_cast<uint32_t>(bytes.size())};
  REQUIRE(status(node.send(Opcode::kShardWrite, encoded(ShardWriteRequest{header}), bytes)) ==
          "OK");
}

// Flips a bit of the stored payload, as bad memory would.
void damage(TestNode& node, uint8_t index, size_t offset) {
  const ItemRef item = node.store.find(shard_item_key(name_of(index)));
  const auto layout = read_shard_item(node.store, item);
  REQUIRE(layout);
  std::byte byte;
  node.store.read(item, layout->payload_at + offset, {&byte, 1});
  byte ^= std::byte{4};
  node.store.write(item, layout->payload_at + offset, {&byte, 1});
}

Reply ask(TestNode& node, std::vector<ShardFingerprintRequest::Shard> shards) {
  return node.send(Opcode::kShardFingerprint,
                   encoded(ShardFingerprintRequest{kSeed, std::move(shards)}));
}
ShardFingerprintReply told(TestNode& node, std::vector<ShardFingerprintRequest::Shard> shards) {
  return args_of<ShardFingerprintReply>(ask(node, std::move(shards)));
}
std::vector<ShardHealth> healths(TestNode& node,
                                 std::vector<ShardFingerprintRequest::Shard> shards) {
  std::vector<ShardHealth> healths;
  for (const auto& entry : told(node, std::move(shards)).entries) healths.push_back(entry.health);
  return healths;
}
constexpr ShardHealth kIntact = ShardHealth::kIntact;
constexpr ShardHealth kBad = ShardHealth::kBad;
constexpr ShardHealth kNotHere = ShardHealth::kNotHere;
using Healths = std::vector<ShardHealth>;

BlockFingerprint expected(std::string_view block) {
  return {crc32c(as_view(block)), coding::fingerprint(kSeed, as_view(block))};
}

}  // namespace

TEST_CASE("the fingerprints of a shard are those of its blocks in their order") {
  TestNode node({1, 2, 3});  // home of nothing
  const std::string bytes = pattern(3 * 5000);
  write(node, 0, bytes);
  write(node, 1, "other");
  const auto reply = told(node, {{name_of(0), 5000}, {name_of(1), 5}});
  REQUIRE(reply.entries.size() == 2);
  CHECK(reply.entries[0].health == kIntact);
  CHECK(reply.entries[0].blocks == 3);
  CHECK(reply.entries[1].blocks == 1);
  REQUIRE(reply.blocks.size() == 4);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(reply.blocks[i] == expected(std::string_view(bytes).substr(i * 5000, 5000)));
  }
  CHECK(reply.blocks[3] == expected("other"));
  CHECK(told(node, {{name_of(0), 15'000}}).blocks ==
        std::vector<BlockFingerprint>{expected(bytes)});
}

TEST_CASE("shards that are not there, bad or of other blocks have no fingerprints") {
  TestNode node;
  write(node, 0, pattern(3 * 4096));
  write(node, 1, pattern(3 * 4096));
  write(node, 2, pattern(4096));
  write(node, 3, "");
  damage(node, 1, 5000);
  const auto reply = told(node, {{name_of(0), 4096}, {name_of(1), 4096}, {name_of(9), 4096}});
  CHECK(reply.blocks.size() == 3);
  CHECK(healths(node, {{name_of(0), 4096}, {name_of(1), 4096}, {name_of(9), 4096}}) ==
        Healths{kIntact, kBad, kNotHere});
  CHECK(healths(node, {{name_of(2), 4095}, {name_of(2), 8192}, {name_of(2), 4096}}) ==
        Healths{kBad, kBad, kIntact});
  CHECK(healths(node, {{name_of(2), 4096 / kMaxShardBlocks}}) == Healths{kIntact});
  CHECK(healths(node, {{name_of(2), 4096 / kMaxShardBlocks / 2}}) == Healths{kBad});
  CHECK(healths(node, {{name_of(3), 1}}) == Healths{kBad});
  CHECK(node.stat("bad_pages") == 2);
}

TEST_CASE("SHARD_FINGERPRINT reads a bounded number of bytes, and at least one shard") {
  TestNode node({1, 2, 0}, {}, {.confirm_bytes = 1000});
  for (const uint8_t i : {uint8_t{0}, uint8_t{1}, uint8_t{3}}) write(node, i, pattern(400));
  write(node, 4, pattern(5000));
  CHECK(
      healths(node, {{name_of(0), 400}, {name_of(1), 400}, {name_of(2), 400}, {name_of(3), 400}}) ==
      Healths{kIntact, kIntact, kNotHere});
  CHECK(healths(node, {{name_of(3), 400}, {name_of(4), 5000}}) == Healths{kIntact});
  CHECK(healths(node, {{name_of(4), 5000}, {name_of(3), 400}}) == Healths{kIntact});
}

TEST_CASE("requests for fingerprints that make no sense are refused") {
  TestNode node;
  write(node, 0, "bytes");
  CHECK(status(ask(node, {{name_of(0), 0}})) == "INVALID");
  CHECK(status(ask(node, std::vector<ShardFingerprintRequest::Shard>(
                             kMaxListEntries + 1, {name_of(0), 5}))) == "INVALID");
  CHECK(healths(node, {}).empty());
}

}  // namespace elastripe::node::test
