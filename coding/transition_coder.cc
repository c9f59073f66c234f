#include "coding/transition_coder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "coding/gf.h"

namespace elastripe::coding {
namespace {

constexpr size_t kLineBytes = 64;

// m buffers of `bytes` bytes, for parity 0..m-1.
template <typename Byte>
std::expected<void, std::string> check_buffers(const char* what, int m, size_t bytes,
                                               std::span<const std::span<Byte>> buffers) {
  if (buffers.size() != static_cast<size_t>(m)) {
    return std::unexpected(std::to_string(buffers.size()) + " buffers of " + what + ", need " +
                           std::to_string(m));
  }
  for (const auto& buffer : buffers) {
    if (buffer.size() == bytes) continue;
    return std::unexpected("buffer of " + std::string(what) + " has " +
                           std::to_string(buffer.size()) + " bytes, needs " +
                           std::to_string(bytes));
  }
  return {};
}

}  // namespace

std::expected<TransitionCoder, std::string> TransitionCoder::deltas(
    const Codec& codec, const TransitionPlan& plan, size_t block_bytes,
    std::span<const std::span<const std::byte>> blocks,
    std::span<const std::span<std::byte>> deltas) {
  TransitionCoder coder(codec, block_bytes);
  if (auto ok = coder.check(plan, blocks); !ok) return std::unexpected(ok.error());
  const size_t bytes = plan.deltas.size() * block_bytes;
  if (auto ok = check_buffers("deltas", codec.m(), bytes, deltas); !ok) {
    return std::unexpected(ok.error());
  }
  for (const auto& delta : plan.deltas) coder.add_sum(delta, {}, blocks);
  for (const auto& buffer : deltas) coder.out_.push_back(buffer.data());
  return coder;
}

std::expected<TransitionCoder, std::string> TransitionCoder::parities(
    const Codec& codec, const TransitionPlan& plan, size_t block_bytes,
    std::span<const std::span<const std::byte>> blocks,
    std::span<const std::span<const std::byte>> old_parities,
    std::span<const std::span<std::byte>> new_parities) {
  TransitionCoder coder(codec, block_bytes);
  if (auto ok = coder.check(plan, blocks); !ok) return std::unexpected(ok.error());
  const auto shard_bytes = [&](State state) {
    return static_cast<size_t>(codec.layout().codewords(state)) * block_bytes;
  };
  const bool uses_old = std::ranges::any_of(
      plan.codewords, [](const auto& codeword) { return !codeword.old.empty(); });
  if (auto ok = check_buffers("old parities", codec.m(), shard_bytes(state_before(plan.direction)),
                              old_parities);
      uses_old && !ok) {
    return std::unexpected(ok.error());
  }
  if (auto ok = check_buffers("new parities", codec.m(), shard_bytes(state_after(plan.direction)),
                              new_parities);
      !ok) {
    return std::unexpected(ok.error());
  }
  for (const auto& codeword : plan.codewords) coder.add_sum(codeword.blocks, codeword.old, blocks);
  for (const auto& buffer : old_parities) coder.old_.push_back(buffer.data());
  for (const auto& buffer : new_parities) coder.out_.push_back(buffer.data());
  return coder;
}

// Plans are plain values, so one may belong to another scheme: after this, no index is wrong.
std::expected<void, std::string> TransitionCoder::check(
    const TransitionPlan& plan, std::span<const std::span<const std::byte>> blocks) const {
  const Layout& layout = codec_->layout();
  const auto l = static_cast<size_t>(layout.blocks());
  if (blocks.size() != l) {
    return std::unexpected(std::to_string(blocks.size()) + " data blocks, need " +
                           std::to_string(l));
  }
  const auto below = [](const std::vector<uint16_t>& list, int limit) {
    return std::ranges::all_of(list, [limit](uint16_t i) { return i < limit; });
  };
  const int old_codewords = layout.codewords(state_before(plan.direction));
  bool fits =
      plan.codewords.size() == static_cast<size_t>(layout.codewords(state_after(plan.direction)));
  for (const auto& codeword : plan.codewords) {
    fits &= below(codeword.blocks, layout.blocks()) && below(codeword.old, old_codewords);
  }
  for (const auto& delta : plan.deltas) fits &= below(delta, layout.blocks());
  if (!fits) return std::unexpected("the plan does not fit the scheme");
  for (const auto& block : blocks) {
    if (block.size() > block_bytes_) return std::unexpected("a data block is too long");
  }
  return {};
}

void TransitionCoder::add_sum(const std::vector<uint16_t>& terms, const std::vector<uint16_t>& old,
                              std::span<const std::span<const std::byte>> blocks) {
  Sum sum;
  sum.old = old;
  sum.terms.reserve(terms.size());
  sum.cuts.push_back(block_bytes_);
  for (const uint16_t b : terms) {
    sum.terms.push_back({blocks[b].data(), blocks[b].size(), codec_->layout().node_of(b)});
    if (blocks[b].size() != block_bytes_) sum.cuts.push_back(blocks[b].size());
  }
  std::ranges::sort(sum.cuts);
  sums_.push_back(std::move(sum));
}

bool TransitionCoder::step(size_t max_bytes) {
  while (!done() && max_bytes > 0) {
    const Sum& sum = sums_[sum_];
    const size_t width = std::max<size_t>(1, sum.terms.size() + sum.old.size() * old_.size());
    const size_t lines = std::max<size_t>(1, max_bytes / width / kLineBytes);
    const size_t end = position_ + std::min(block_bytes_ - position_, lines * kLineBytes);
    const size_t used = (end - position_) * width;
    combine_range(position_, end);
    max_bytes -= std::min(max_bytes, used);
    position_ = end;
    if (position_ < block_bytes_) continue;
    ++sum_;
    position_ = 0;
  }
  return !done();
}

// Bytes [begin, end) of the current sum, in pieces in which the same terms are there.
void TransitionCoder::combine_range(size_t begin, size_t end) {
  for (const size_t cut : sums_[sum_].cuts) {
    const size_t stop = std::min(cut, end);
    if (stop <= begin) continue;
    combine_piece(begin, stop);
    begin = stop;
  }
}

void TransitionCoder::combine_piece(size_t begin, size_t end) {
  const Sum& sum = sums_[sum_];
  const size_t bytes = end - begin;
  std::array<const std::byte*, kMaxInputs> from;
  std::array<const Term*, kMaxInputs> first;
  std::vector<const Term*> more;  // a sum may have more terms than one call of combine
  size_t columns = 0;
  for (const Term& term : sum.terms) {
    if (term.bytes < end) continue;
    if (columns == kMaxInputs) {
      more.push_back(&term);
      continue;
    }
    first[columns] = &term;
    from[columns++] = term.data + begin;
  }
  std::array<std::byte*, kMaxOutputs> to;
  std::array<uint8_t, kMaxInputs * kMaxOutputs> coefficients;
  size_t cells = 0;
  for (size_t j = 0; j < out_.size(); ++j) {
    to[j] = out_[j] + sum_ * block_bytes_ + begin;
    for (size_t i = 0; i < columns; ++i) {
      coefficients[cells++] = codec_->coefficient(static_cast<int>(j), first[i]->node);
    }
  }
  combine(std::span(coefficients).first(cells), std::span(from).first(columns),
          std::span(to).first(out_.size()), bytes);
  for (size_t j = 0; j < out_.size(); ++j) {
    for (const Term* term : more) {
      multiply_add(codec_->coefficient(static_cast<int>(j), term->node),
                   {term->data + begin, bytes}, {to[j], bytes});
    }
    for (const uint16_t o : sum.old) {
      multiply_add(1, {old_[j] + o * block_bytes_ + begin, bytes}, {to[j], bytes});
    }
  }
}

}  // namespace elastripe::coding
