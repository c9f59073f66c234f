#include "coding/segment.h"

#include <algorithm>

#include "coding/require.h"

namespace elastripe::coding {

std::expected<SegmentGeometry, std::string> SegmentGeometry::make(const Codec& codec,
                                                                  size_t length) {
  if (length < 1 || length > kMaxSegmentBytes) {
    return std::unexpected("segment of " + std::to_string(length) + " bytes, must be 1.." +
                           std::to_string(kMaxSegmentBytes));
  }
  const auto l = static_cast<size_t>(codec.layout().blocks());
  size_t alignment = kMaxBlockAlignment;
  while (alignment > 1 && l * alignment > length / 100) alignment /= 2;
  const size_t least = (length + l - 1) / l;
  return SegmentGeometry(codec, length, (least + alignment - 1) / alignment * alignment);
}

size_t SegmentGeometry::data_shard_bytes() const {
  return static_cast<size_t>(codec_->layout().rows()) * block_bytes_;
}

size_t SegmentGeometry::parity_shard_bytes(State state) const {
  return static_cast<size_t>(codec_->layout().codewords(state)) * block_bytes_;
}

size_t SegmentGeometry::shard_bytes(State state, int shard) const {
  require(shard >= 0 && shard < codec_->shards());
  return shard < codec_->k_prime() ? data_shard_bytes() : parity_shard_bytes(state);
}

size_t SegmentGeometry::block_length(int b) const {
  require(b >= 0 && b < codec_->layout().blocks());
  const size_t offset = block_offset(b);
  return offset < length_ ? std::min(block_bytes_, length_ - offset) : 0;
}

std::vector<Extent> SegmentGeometry::shard_extents(int shard) const {
  std::vector<Extent> extents;
  for (const uint16_t b : codec_->layout().shard_blocks(shard)) {
    const size_t offset = block_offset(b);
    const size_t bytes = block_length(b);
    const size_t zeros = block_bytes_ - bytes;
    if (!extents.empty()) {
      Extent& last = extents.back();
      if (bytes == 0) {
        last.zeros += zeros;
        continue;
      }
      if (last.zeros == 0 && last.offset + last.bytes == offset) {
        last.bytes += bytes;
        last.zeros = zeros;
        continue;
      }
    }
    extents.push_back({bytes == 0 ? 0 : offset, bytes, zeros});
  }
  return extents;
}

}  // namespace elastripe::coding
