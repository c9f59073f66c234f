#include "coding/delta.h"

#include <algorithm>

#include "coding/gf.h"
#include "coding/require.h"

namespace elastripe::coding {
namespace {

// What the least term costs, as much as a cache line of a long one.
constexpr size_t kLineBytes = 64;

}  // namespace

std::vector<DataExtent> data_extents(const SegmentGeometry& geometry, size_t offset, size_t bytes) {
  require(offset <= geometry.length() && bytes <= geometry.length() - offset);
  const Layout& layout = geometry.codec().layout();
  const size_t block_bytes = geometry.block_bytes();
  std::vector<DataExtent> extents;
  const size_t end = offset + bytes;
  while (offset < end) {
    const auto b = static_cast<int>(offset / block_bytes);
    const size_t in_block = offset % block_bytes;
    const size_t piece = std::min(end - offset, block_bytes - in_block);
    const int shard = layout.node_of(b);
    const size_t shard_offset = static_cast<size_t>(layout.row_of(b)) * block_bytes + in_block;
    const bool goes_on = !extents.empty() && extents.back().shard == shard &&
                         extents.back().shard_offset + extents.back().bytes == shard_offset;
    if (goes_on) {
      extents.back().bytes += piece;
    } else {
      extents.push_back({shard, shard_offset, offset, piece});
    }
    offset += piece;
  }
  return extents;
}

ParityDeltas::ParityDeltas(const SegmentGeometry& geometry, State state,
                           std::span<const DataDelta> deltas)
    : codec_(&geometry.codec()) {
  for (const DataDelta& delta : deltas) add_terms(geometry, state, delta);
  make_ranges();
}

void ParityDeltas::add_terms(const SegmentGeometry& geometry, State state, const DataDelta& delta) {
  require(delta.shard >= 0 && delta.shard < codec_->k_prime());
  require(delta.offset <= geometry.data_shard_bytes() &&
          delta.bytes.size() <= geometry.data_shard_bytes() - delta.offset);
  const Layout& layout = codec_->layout();
  const size_t block_bytes = geometry.block_bytes();
  const std::span<const uint16_t> blocks = layout.shard_blocks(delta.shard);
  size_t offset = delta.offset;
  for (auto left = delta.bytes; !left.empty();) {
    const int b = blocks[offset / block_bytes];
    const int codeword = state == State::kNarrow ? layout.stripe_of(b) : layout.row_of(b);
    const size_t in_block = offset % block_bytes;
    const size_t piece = std::min(left.size(), block_bytes - in_block);
    terms_.push_back(
        {left.first(piece), static_cast<size_t>(codeword) * block_bytes + in_block, delta.shard});
    left = left.subspan(piece);
    offset += piece;
  }
}

void ParityDeltas::make_ranges() {
  std::vector<ByteRange> pieces;
  pieces.reserve(terms_.size());
  for (const Term& term : terms_) pieces.push_back({term.at, term.delta.size()});
  std::ranges::sort(pieces, {}, &ByteRange::offset);
  std::vector<size_t> starts;  // of the ranges, in sums_
  size_t total = 0;
  for (const ByteRange& piece : pieces) {
    const size_t end = piece.offset + piece.bytes;
    if (ranges_.empty() || piece.offset > ranges_.back().offset + ranges_.back().bytes) {
      ranges_.push_back({piece.offset, 0});
      starts.push_back(total);
    }
    ByteRange& last = ranges_.back();
    if (end <= last.offset + last.bytes) continue;
    total += end - (last.offset + last.bytes);
    last.bytes = end - last.offset;
  }
  for (Term& term : terms_) {
    const auto behind = std::ranges::upper_bound(ranges_, term.at, {}, &ByteRange::offset);
    const auto range = static_cast<size_t>(behind - ranges_.begin() - 1);
    term.at += starts[range] - ranges_[range].offset;
  }
  sums_.assign(static_cast<size_t>(codec_->m()), std::vector<std::byte>(total));
}

bool ParityDeltas::step(size_t max_bytes) {
  while (!done() && max_bytes > 0) {
    const Term& term = terms_[term_];
    const size_t piece = std::min(term.delta.size() - position_, std::max(max_bytes, kLineBytes));
    for (size_t j = 0; j < sums_.size(); ++j) {
      multiply_add(codec_->coefficient(static_cast<int>(j), term.node),
                   term.delta.subspan(position_, piece),
                   std::span(sums_[j]).subspan(term.at + position_, piece));
    }
    max_bytes -= std::min(max_bytes, std::max(piece, kLineBytes));
    position_ += piece;
    if (position_ < term.delta.size()) continue;
    ++term_;
    position_ = 0;
  }
  return !done();
}

std::span<const std::byte> ParityDeltas::bytes(int parity) const {
  require(done() && parity >= 0 && parity < codec_->m());
  return sums_[static_cast<size_t>(parity)];
}

}  // namespace elastripe::coding
