// How the bytes of a segment fill its shards.
//
// Object bytes fill D_0, D_1, ... in order; what is left of the last block, and for a short segment
// whole blocks after it, is zero padding. Data shard i is its blocks in row order; parity shard j
// is parity j of every codeword in order. Block and shard sizes follow from the scheme and the
// length.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <vector>

#include "coding/codec.h"

namespace elastripe::coding {

inline constexpr size_t kMaxSegmentBytes = size_t{1} << 30;

// Blocks are multiples of the largest power of two up to this that keeps padding below 1%.
inline constexpr size_t kMaxBlockAlignment = 16;

// The next `bytes` bytes of a shard are segment bytes [offset, offset + bytes); `zeros` zero bytes
// of padding follow them. Either may be 0, not both.
struct Extent {
  size_t offset = 0;
  size_t bytes = 0;
  size_t zeros = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

// A value; cheap to copy. Any thread.
class SegmentGeometry {
 public:
  // A segment of `length` object bytes, 1..kMaxSegmentBytes.
  static std::expected<SegmentGeometry, std::string> make(const Codec& codec, size_t length);

  const Codec& codec() const { return *codec_; }
  size_t length() const { return length_; }
  size_t block_bytes() const { return block_bytes_; }

  size_t data_shard_bytes() const;
  size_t parity_shard_bytes(State state) const;
  // The size of one shard, 0 <= shard < k' + m.
  size_t shard_bytes(State state, int shard) const;

  // Where block b lies in the segment, and how many of its bytes are the object's; the others are
  // padding.
  size_t block_offset(int b) const { return static_cast<size_t>(b) * block_bytes_; }
  size_t block_length(int b) const;

  // The pieces of data shard 0 <= shard < k', first byte to last, adjacent ones merged: what to
  // write from and read into the segment's buffer. Their bytes and zeros add up to
  // data_shard_bytes().
  std::vector<Extent> shard_extents(int shard) const;

 private:
  SegmentGeometry(const Codec& codec, size_t length, size_t block_bytes)
      : codec_(&codec), length_(length), block_bytes_(block_bytes) {}

  const Codec* codec_;
  size_t length_;
  size_t block_bytes_;
};

}  // namespace elastripe::coding
