// What the tests of the coding library share: segments as bytes, coded by the library or naively.
#pragma once

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coding/codec.h"
#include "coding/coder.h"
#include "coding/gf.h"
#include "coding/segment.h"

namespace elastripe::coding {

using Bytes = std::vector<std::byte>;

inline constexpr uint32_t kSeed = 20240607;
inline constexpr std::byte kPoison{0xEE};

inline const Codec& codec_of(std::string_view text) {
  const auto scheme = parse_scheme(text);
  INFO((scheme ? std::string() : scheme.error()));
  REQUIRE(scheme);
  const auto codec = codec_for(*scheme);
  REQUIRE(codec);
  return **codec;
}

inline SegmentGeometry geometry_of(const Codec& codec, size_t length) {
  const auto geometry = SegmentGeometry::make(codec, length);
  REQUIRE(geometry);
  return *geometry;
}

inline Bytes random_bytes(std::mt19937& random, size_t count) {
  Bytes bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

template <typename T>
std::vector<std::span<T>> spans_of(std::vector<Bytes>& buffers) {
  return {buffers.begin(), buffers.end()};
}

// All k' + m shards, coded by the library. `step` bytes a step.
inline std::vector<Bytes> encode(const SegmentGeometry& geometry, State state,
                                 std::span<const std::byte> segment, size_t step = SIZE_MAX) {
  const Codec& codec = geometry.codec();
  std::vector<Bytes> shards;
  for (int i = 0; i < codec.k_prime(); ++i) {
    Bytes shard;
    for (const Extent& extent : geometry.shard_extents(i)) {
      const auto part = segment.subspan(extent.offset, extent.bytes);
      shard.insert(shard.end(), part.begin(), part.end());
      shard.insert(shard.end(), extent.zeros, std::byte{0});
    }
    shards.push_back(std::move(shard));
  }
  std::vector<Bytes> parities(static_cast<size_t>(codec.m()),
                              Bytes(geometry.parity_shard_bytes(state), kPoison));
  auto coder = Coder::encoder(geometry, state, segment, spans_of<std::byte>(parities));
  INFO((coder ? std::string() : coder.error()));
  REQUIRE(coder);
  while (coder->step(step)) {
  }
  REQUIRE(coder->done());
  for (Bytes& parity : parities) shards.push_back(std::move(parity));
  return shards;
}

// The parity shards from the definition: padded copy, byte after byte.
inline std::vector<Bytes> naive_parities(const SegmentGeometry& geometry, State state,
                                         std::span<const std::byte> segment) {
  const Codec& codec = geometry.codec();
  const Layout& layout = codec.layout();
  const size_t size = geometry.block_bytes();
  Bytes padded(segment.begin(), segment.end());
  padded.resize(static_cast<size_t>(layout.blocks()) * size);
  std::vector<Bytes> parities(static_cast<size_t>(codec.m()));
  for (int j = 0; j < codec.m(); ++j) {
    Bytes& parity = parities[static_cast<size_t>(j)];
    parity.resize(geometry.parity_shard_bytes(state));
    for (int c = 0; c < layout.codewords(state); ++c) {
      for (const uint16_t b : layout.codeword_blocks(state, c)) {
        const uint8_t factor = codec.coefficient(j, layout.node_of(b));
        for (size_t i = 0; i < size; ++i) {
          const auto value = static_cast<uint8_t>(padded[b * size + i]);
          parity[static_cast<size_t>(c) * size + i] ^=
              static_cast<std::byte>(gf_multiply(factor, value));
        }
      }
    }
  }
  return parities;
}

inline ShardSet shard_set(std::initializer_list<int> shards) {
  ShardSet set;
  for (const int shard : shards) set.set(static_cast<size_t>(shard));
  return set;
}

// Calls visit(set) for every set of at most `most` of `count` shards.
template <typename Visit>
void for_each_erasure(int count, int most, Visit visit) {
  for (uint32_t bits = 0; bits < (uint32_t{1} << count); ++bits) {
    if (std::popcount(bits) <= most) visit(ShardSet(bits));
  }
}

}  // namespace elastripe::coding
