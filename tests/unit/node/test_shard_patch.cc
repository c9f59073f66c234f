// SHARD_PATCH: new shards out of old ones of which some bytes are others.
#include <random>

#include "tests/unit/node/stored_shard.h"

namespace elastripe::node::test {
namespace {

constexpr auto kWrite = ShardPatchMode::kWrite;
constexpr auto kAdd = ShardPatchMode::kAdd;

const ShardName kOld{{11, 12}, 3, 0, 1};
const ShardName kNew{{13, 14}, 3, 0, 1};

std::string pattern(size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 7 + i / 256);
  return out;
}

std::string sum(std::string_view a, std::string_view b) {
  std::string out(a);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(a[i] ^ b.at(i));
  return out;
}

ShardHeader header_of(const ShardName& name, size_t bytes) {
  return {.name = name, .key = "owner", .payload_bytes = static_cast<uint32_t>(bytes)};
}

void write(TestNode& node, const ShardName& name, std::string_view bytes) {
  const ShardWriteRequest request{header_of(name, bytes.size())};
  REQUIRE(status(node.send(Opcode::kShardWrite, encoded(request), bytes)) == "OK");
}
Reply read(TestNode& node, const ShardName& name, uint32_t offset = 0, uint32_t length = 0) {
  return node.send(Opcode::kShardRead, encoded(ShardReadRequest{name, offset, length}));
}

struct Patch {
  uint32_t offset;
  std::string bytes;
};
struct Made {
  ShardPatchRequest request;
  std::string payload;
};
Made make(ShardPatchMode mode, size_t shard_bytes, const std::vector<Patch>& patches) {
  Made made{{kOld, header_of(kNew, shard_bytes), mode, {}}, {}};
  for (const Patch& patch : patches) {
    const auto length = static_cast<uint32_t>(patch.bytes.size());
    made.request.extents.push_back({patch.offset, length, crc32c(as_view(patch.bytes))});
    made.payload += patch.bytes;
  }
  return made;
}
Reply send(TestNode& node, const Made& made) {
  return node.send(Opcode::kShardPatch, encoded(made.request), made.payload);
}
Reply patch(TestNode& node, ShardPatchMode mode, size_t shard_bytes,
            const std::vector<Patch>& patches) {
  return send(node, make(mode, shard_bytes, patches));
}

}  // namespace

TEST_CASE("a patched shard has the new bytes, and the answer tells what has changed") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const size_t bytes : {1u, 2u, 4095u, 4096u, 4097u, 12'288u, 100'001u}) {
    for (int round = 0; round < 20; ++round) {
      TestNode node({1, 2, 3});  // home of nothing
      const std::string old = pattern(bytes);
      write(node, kOld, old);
      std::string expected = old;
      std::vector<Patch> patches;
      std::vector<Patch> deltas;
      std::string told;
      for (size_t at = random() % bytes; at < bytes;) {
        const size_t length = std::min<size_t>(1 + random() % 6000, bytes - at);
        std::string fresh(length, '\0');
        for (char& byte : fresh) byte = static_cast<char>(random());
        patches.push_back({static_cast<uint32_t>(at), fresh});
        deltas.push_back({static_cast<uint32_t>(at), sum(fresh, old.substr(at, length))});
        told += deltas.back().bytes;
        expected.replace(at, length, fresh);
        at += length + (random() % 3 == 0 ? 0 : random() % 6000);
      }
      INFO(bytes << " bytes, " << patches.size() << " extents");
      const Reply written = patch(node, kWrite, bytes, patches);
      REQUIRE(status(written) == "OK");
      REQUIRE(written.args.empty());
      REQUIRE(node.stat("shard_changes") == 1);
      REQUIRE(node.stat("shard_changed_bytes") == told.size());
      REQUIRE(payload_of(written) == told);
      REQUIRE(payload_of(read(node, kNew)) == expected);
      REQUIRE(payload_of(read(node, kOld)) == old);

      // What was told, added to the same source under another name.
      Made added = make(kAdd, bytes, deltas);
      added.request.header.name.generation = 7;
      const Reply reply = send(node, added);
      REQUIRE(status(reply) == "OK");
      REQUIRE(payload_of(reply).empty());
      REQUIRE(payload_of(read(node, added.request.header.name)) == expected);
      REQUIRE(node.stat("shards") == 3);
    }
  }
}

TEST_CASE("a second copy of a patch answers the same, other bytes of the name are refused") {
  TestNode node;
  write(node, kOld, pattern(10'000));
  const std::vector<Patch> patches = {{5000, "update"}};
  const auto mode = GENERATE(kWrite, kAdd);
  const Reply first = patch(node, mode, 10'000, patches);
  REQUIRE(status(first) == "OK");
  const std::string made = payload_of(read(node, kNew));
  const Reply second = patch(node, mode, 10'000, patches);
  CHECK(status(second) == "OK");
  CHECK(payload_of(second) == payload_of(first));
  const Reply other = patch(node, mode, 10'000, {{5001, "update"}});
  CHECK(status(other) == "EXISTS");
  CHECK(payload_of(read(node, kNew)) == made);
  CHECK(node.stat("shards") == 2);

  SECTION("a page of the new one that has gone bad is healed") {
    damage(node, kNew, 1);
    CHECK(status(patch(node, mode, 10'000, patches)) == "OK");
    CHECK(payload_of(read(node, kNew)) == made);
  }
  SECTION("one of the source is not") {
    damage(node, kOld, 1);
    CHECK(status(patch(node, mode, 10'000, patches)) == "OK");
    CHECK(payload_of(read(node, kNew)) == made);
  }
  SECTION("once the source is gone there is nothing to answer from") {
    node.send(Opcode::kShardDelete, encoded(ShardDeleteRequest{{kOld}}));
    CHECK(status(patch(node, mode, 10'000, patches)) == "NOT_HERE");
    CHECK(payload_of(read(node, kNew)) == made);
  }
}

TEST_CASE("a shard can not be patched into itself") {
  TestNode node;
  write(node, kOld, pattern(100));
  Made made = make(kWrite, 100, {{5, "new"}});
  made.request.header.name = kOld;
  CHECK(status(send(node, made)) == "EXISTS");
  CHECK(payload_of(read(node, kOld)) == pattern(100));
}

TEST_CASE("only pages that a patch touches are looked at, bad others stay bad") {
  TestNode node;
  const std::string old = pattern(5 * kPageBytes);
  write(node, kOld, old);
  const auto before = stored_checksums(node, kOld);
  damage(node, kOld, 4 * kPageBytes);
  std::string expected = old;
  expected.replace(2 * kPageBytes - 1, 2, "ab");
  REQUIRE(status(patch(node, kWrite, old.size(), {{2 * kPageBytes - 1, "ab"}})) == "OK");
  const auto after = stored_checksums(node, kNew);
  CHECK(after[0] == before[0]);
  CHECK(after[1] != before[1]);
  CHECK(after[2] != before[2]);
  CHECK(after[3] == before[3]);
  CHECK(after[4] == before[4]);
  CHECK(payload_of(read(node, kNew, 0, 4 * kPageBytes)) == expected.substr(0, 4 * kPageBytes));
  CHECK(status(read(node, kNew, 4 * kPageBytes)) == "BAD_PAGE");
}

TEST_CASE("a bad page of the source that a patch touches is told, and nothing is made of it") {
  TestNode node;
  write(node, kOld, pattern(3 * kPageBytes));
  damage(node, kOld, kPageBytes + 5);
  const auto mode = GENERATE(kWrite, kAdd);
  const auto tried = [&](const std::vector<Patch>& patches) {
    return status(patch(node, mode, 3 * kPageBytes, patches));
  };
  // Also where all of the page is written: what has changed is not known.
  CHECK(tried({{kPageBytes, std::string(kPageBytes, 'x')}}) == "BAD_PAGE");
  CHECK(tried({{0, "a"}, {kPageBytes - 1, "bc"}}) == "BAD_PAGE");
  CHECK(tried({{2 * kPageBytes - 1, "a"}, {2 * kPageBytes, "b"}}) == "BAD_PAGE");
  CHECK(node.stat("bad_pages") == 3);
  CHECK(status(read(node, kNew)) == "NOT_HERE");
  CHECK(tried({{0, "a"}, {2 * kPageBytes, "b"}}) == "OK");
}

TEST_CASE("patches that make no sense are refused, and nothing is stored") {
  TestNode node;
  write(node, kOld, pattern(100));
  const auto refusal = [&](const std::function<void(Made&)>& change) {
    Made made = make(kWrite, 100, {{5, "first"}, {95, "last!"}});
    change(made);
    const Reply reply = send(node, made);
    CHECK(status(reply) == "INVALID");
    return payload_of(reply);
  };
  const std::string malformed = "malformed SHARD_PATCH";
  const std::string mismatch = "the checksum of an extent does not match";
  const std::string beyond = "an extent is beyond the shard's end";
  CHECK(refusal([](Made& m) { m.payload[4] = 'x'; }) == mismatch);
  CHECK(refusal([](Made& m) { m.payload[9] = 'x'; }) == mismatch);
  CHECK(refusal([](Made& m) { ++m.request.extents[1].crc32c; }) == mismatch);
  CHECK(refusal([](Made& m) { m.payload.pop_back(); }) ==
        "the payload is too short for the extents");
  CHECK(refusal([](Made& m) { m.payload += 'x'; }) == "the payload is too long for the extents");
  CHECK(refusal([](Made& m) { m.request.extents.pop_back(); }) ==
        "the payload is too long for the extents");
  CHECK(refusal([](Made& m) { m.request.extents[1].offset = 96; }) == beyond);
  CHECK(refusal([](Made& m) { m.request.extents[1].offset = UINT32_MAX; }) == beyond);
  CHECK(refusal([](Made& m) { m.request.extents[1].length = UINT32_MAX; }) == beyond);
  CHECK(refusal([](Made& m) { m.request.extents[1].offset = 9; }) == malformed);
  CHECK(refusal([](Made& m) { std::swap(m.request.extents[0], m.request.extents[1]); }) ==
        malformed);
  CHECK(refusal([](Made& m) { m.request.extents.push_back({100, 0, 0}); }) == malformed);
  CHECK(refusal([](Made& m) { m.request.mode = static_cast<ShardPatchMode>(2); }) == malformed);
  CHECK(refusal([](Made& m) { m.request.header.payload_bytes = 101; }) ==
        "the shard's length is not the source's");
  CHECK(refusal([](Made& m) { m.request.header.payload_bytes = 99; }) == beyond);
  CHECK(refusal([](Made& m) { m.request.header.payload_bytes = UINT32_MAX; }) ==
        "shard is too large");
  CHECK(status(read(node, kNew)) == "NOT_HERE");
  CHECK(node.stat("shards") == 1);
}

TEST_CASE("a patch without a source, or without room, changes nothing") {
  TestNode node({1, 2, 0}, {.limit_bytes = 32u << 10, .reserve_bytes = 16u << 10});
  CHECK(status(patch(node, kWrite, 10'000, {{0, "a"}})) == "NOT_HERE");
  write(node, kOld, pattern(10'000));
  CHECK(status(patch(node, kWrite, 10'000, {{0, "a"}})) == "NO_SPACE");
  CHECK(status(read(node, kNew)) == "NOT_HERE");
  CHECK(payload_of(read(node, kOld)) == pattern(10'000));
}

TEST_CASE("a patch of nothing is a copy") {
  TestNode node;
  write(node, kOld, pattern(5000));
  const Reply reply = patch(node, GENERATE(kWrite, kAdd), 5000, {});
  CHECK(status(reply) == "OK");
  CHECK(payload_of(reply).empty());
  CHECK(payload_of(read(node, kNew)) == pattern(5000));
}

}  // namespace elastripe::node::test
