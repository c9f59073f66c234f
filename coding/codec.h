// A codec is what all segments of one scheme share: its layout and its coding matrix. Made once per
// scheme, immutable, never freed; any thread may use it.
#pragma once

#include <bitset>
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "coding/layout.h"
#include "coding/require.h"
#include "coding/scheme.h"

namespace elastripe::coding {

inline constexpr int kMaxShards = kMaxDataNodes + kMaxParities;

// A set of shards of one segment: data shard i is i, parity shard j is k' + j.
using ShardSet = std::bitset<kMaxShards>;

class Codec {
 public:
  Codec(const Scheme& scheme, std::vector<uint8_t> matrix);

  const Scheme& scheme() const { return scheme_; }
  const Layout& layout() const { return layout_; }
  int k_prime() const { return scheme_.k_prime; }
  int m() const { return scheme_.m; }
  int shards() const { return scheme_.shards(); }

  // G[parity][node], the same in both states: blocks of nodes that a stripe does not use count as
  // zeros (ERS Algorithm 1).
  uint8_t coefficient(int parity, int node) const {
    require(parity >= 0 && parity < m() && node >= 0 && node < k_prime());
    return matrix_[static_cast<size_t>(parity) * scheme_.k_prime + static_cast<size_t>(node)];
  }

  // True for rep: every parity shard has the bytes of data shard 0, so it can be sent from the
  // segment itself and nothing needs to be encoded.
  bool parities_are_copies() const { return scheme_.k_prime == 1; }

  const ShardSet& data_shards() const { return data_shards_; }
  const ShardSet& parity_shards() const { return parity_shards_; }

 private:
  Scheme scheme_;
  Layout layout_;
  std::vector<uint8_t> matrix_;  // [parity][node]
  ShardSet data_shards_;
  ShardSet parity_shards_;
};

// The codec of a scheme; fails only if the scheme is not valid. The pointer is never null and stays
// valid for the life of the process. Takes a lock for a moment.
std::expected<const Codec*, std::string> codec_for(const Scheme& scheme);

}  // namespace elastripe::coding
