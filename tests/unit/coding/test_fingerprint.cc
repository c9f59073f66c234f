#include "coding/fingerprint.h"
#include "tests/unit/coding/support.h"

namespace elastripe::coding {
namespace {

constexpr FingerprintSeed kKey{0x0123456789abcdef, 0xfedcba9876543210};

const Fingerprinter& fingerprinter() {
  static const Fingerprinter made(kKey);
  return made;
}

std::string hex(const Fingerprint& fingerprint) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : fingerprint) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Fingerprint sum(const Fingerprint& a, const Fingerprint& b) {
  Fingerprint result = a;
  for (size_t i = 0; i < result.size(); ++i) result[i] ^= b[i];
  return result;
}

Fingerprint times(uint8_t factor, const Fingerprint& a) {
  Fingerprint result;
  for (size_t i = 0; i < result.size(); ++i) result[i] = gf_multiply(factor, a[i]);
  return result;
}

// Byte i is the highest byte of (i + 1) * 2654435761 mod 2^32.
Bytes pattern(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((static_cast<uint32_t>(i + 1) * 2654435761u) >> 24);
  }
  return bytes;
}

using Fingerprints = std::vector<std::vector<Fingerprint>>;

// Those of all blocks of all shards.
Fingerprints fingerprints_of(const SegmentGeometry& geometry, const std::vector<Bytes>& shards) {
  Fingerprints all;
  for (const Bytes& shard : shards) {
    auto& blocks = all.emplace_back();
    for (size_t at = 0; at < shard.size(); at += geometry.block_bytes()) {
      blocks.push_back(fingerprinter().of(std::span(shard).subspan(at, geometry.block_bytes())));
    }
  }
  return all;
}

struct Coded {
  Coded(std::string_view scheme, State in_state, size_t length)
      : codec(codec_of(scheme)), geometry(geometry_of(codec, length)), state(in_state) {
    std::mt19937 random(kSeed);
    shards = encode(geometry, state, random_bytes(random, length));
  }

  FingerprintCheck check(const ShardSet& unknown = {}) const {
    Fingerprints known = fingerprints_of(geometry, shards);
    for (size_t i = 0; i < known.size(); ++i) {
      if (unknown.test(i)) known[i].clear();
    }
    return check_fingerprints(codec, state, known);
  }

  void flip(size_t shard, size_t at) { shards[shard][at] ^= std::byte{0x10}; }

  const Codec& codec;
  SegmentGeometry geometry;
  State state;
  std::vector<Bytes> shards;
};

}  // namespace

// Made by an implementation of the definition in fingerprint.h that shares no code with this one.
TEST_CASE("fingerprints are those of the definition") {
  const auto of = [](size_t bytes) { return hex(fingerprint(kKey, pattern(bytes))); };
  CHECK(of(0) == "00000000000000000000000000000000");
  CHECK(of(1) == "07d90911b21e53c998c7e58674906a48");
  CHECK(of(64) == "c0193a322dfcd57632c4eee6e26d036b");
  CHECK(of(1000) == "4332f512bfcc945d47d395846d1aca81");
  CHECK(of(8192) == "604fdc7f439661ca1c27bcc9361678d6");
  CHECK(of(20000) == "bc509c287e0c06157959336d95f738bf");
}

TEST_CASE("processors with and without special instructions agree") {
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (const size_t bytes :
       std::initializer_list<size_t>{0, 1, 63, 64, 65, 4096, 8191, 8192, 8193, 100'000}) {
    const FingerprintSeed seed{random(), random()};
    const Bytes block = random_bytes(random, bytes);
    INFO("bytes " << bytes);
    CHECK(Fingerprinter(seed).of(block) ==
          Fingerprinter(seed, FingerprintKernel::kPortable).of(block));
  }
}

TEST_CASE("fingerprints are linear over GF(2^8)") {
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    const size_t bytes = random() % 20'000;
    const Bytes a = random_bytes(random, bytes);
    const Bytes b = random_bytes(random, bytes);
    const auto factor = static_cast<uint8_t>(random());
    Bytes combined = a;
    multiply_add(factor, b, combined);
    CHECK(fingerprinter().of(combined) ==
          sum(fingerprinter().of(a), times(factor, fingerprinter().of(b))));
  }
}

TEST_CASE("a change of any byte is noticed") {
  std::mt19937 random(kSeed);
  Bytes block = random_bytes(random, 8192 + 8192 + 100);
  const Fingerprint before = fingerprinter().of(block);
  for (std::byte& byte : block) {
    byte ^= std::byte{0x80};
    if (fingerprinter().of(block) == before) FAIL("not noticed");
    byte ^= std::byte{0x80};
  }
  CHECK(fingerprinter().of(block) == before);
}

TEST_CASE("what is moved within a block is noticed") {
  std::mt19937 random(kSeed);
  const Bytes block = random_bytes(random, 40'000);
  const Fingerprint before = fingerprinter().of(block);
  for (const size_t distance : std::initializer_list<size_t>{1, 16, 64, 4096, 8192, 16'384}) {
    Bytes moved = block;
    std::ranges::rotate(moved, moved.begin() + static_cast<std::ptrdiff_t>(distance));
    CHECK(fingerprinter().of(moved) != before);
  }
}

TEST_CASE("seeds give unrelated fingerprints, and zeros count for nothing") {
  const Bytes block = pattern(5000);
  const Fingerprint a = fingerprint({1, 0}, block);
  CHECK(a != fingerprint({0, 1}, block));
  CHECK(a != fingerprint({2, 0}, block));
  CHECK(a != fingerprint({0, 0}, block));
  Bytes padded = block;
  padded.resize(30'000 - 30'000 % 7);
  CHECK(fingerprint({1, 0}, Bytes(5000)) == Fingerprint{});
  CHECK(fingerprint({1, 0}, std::span(padded).first(8000)) == a);
}

TEST_CASE("every coded segment fits together by its fingerprints") {
  for (const char* scheme :
       {"rep:3", "rs:1,1", "rs:4,2", "rs:6,3", "srs:2,2,5", "srs:4,3,6", "ers-1:4,2,5",
        "ers-1:3,1,4", "ers-2:4,2,5", "ers-2:2,2,3", "ers-2:4,3,6", "ers-2:5,2,6"}) {
    for (const State state : {State::kNarrow, State::kWide}) {
      for (const size_t length : std::initializer_list<size_t>{1, 100, 5000, 200'001}) {
        INFO(scheme << " in state " << static_cast<int>(state) << ", " << length << " bytes");
        Coded coded(scheme, state, length);
        REQUIRE(coded.check().is_clean());
        REQUIRE(coded.check(shard_set({0})).is_clean());
        // One byte of any shard.
        for (size_t shard = 0; shard < coded.shards.size(); ++shard) {
          const size_t at = coded.shards[shard].size() - 1;
          coded.flip(shard, at);
          const FingerprintCheck found = coded.check();
          REQUIRE_FALSE(found.is_clean());
          if (coded.codec.m() >= 2) {
            REQUIRE(found.wrong == shard_set({static_cast<int>(shard)}));
            REQUIRE_FALSE(found.has_unexplained);
          } else {
            REQUIRE(found.has_unexplained);
          }
          coded.flip(shard, at);
        }
      }
    }
  }
}

TEST_CASE("several wrong shards are located where no codeword has two") {
  Coded coded("ers-2:4,2,5", State::kWide, 100'000);  // 4 rows, a block of each on every shard
  const size_t block = coded.geometry.block_bytes();
  coded.flip(0, 0);
  coded.flip(6, 3 * block + 1);
  const FingerprintCheck found = coded.check();
  CHECK(found.wrong == shard_set({0, 6}));
  CHECK_FALSE(found.has_unexplained);

  coded.flip(1, 1);  // in the row of the first
  const FingerprintCheck two = coded.check();
  CHECK(two.wrong == shard_set({6}));
  CHECK(two.has_unexplained);
}

TEST_CASE("shards that are wrong in several stripes are located if some stripes have only one") {
  Coded coded("ers-2:3,2,5", State::kNarrow, 100'000);
  const size_t block = coded.geometry.block_bytes();
  for (size_t row = 0; row < 3; ++row) {
    coded.flip(1, row * block);
    coded.flip(2, row * block);
  }
  const FingerprintCheck found = coded.check();
  CHECK(found.wrong == shard_set({1, 2}));
  CHECK_FALSE(found.has_unexplained);
}

TEST_CASE("a wrong shard is located as long as two parities are left") {
  Coded coded("rs:5,3", State::kWide, 30'000);
  coded.flip(2, 7);
  CHECK(coded.check().wrong == shard_set({2}));
  CHECK(coded.check(shard_set({0})).wrong == shard_set({2}));
  CHECK(coded.check(shard_set({6})).wrong == shard_set({2}));
  // With one it is only noticed, with none not even that.
  const FingerprintCheck noticed = coded.check(shard_set({0, 6}));
  CHECK(noticed.wrong.none());
  CHECK(noticed.has_unexplained);
  CHECK(coded.check(shard_set({0, 6, 7})).is_clean());
  CHECK(coded.check(shard_set({2})).is_clean());
}

}  // namespace elastripe::coding
