#include "coding/coder.h"

#include <algorithm>
#include <array>

#include "coding/gf.h"

namespace elastripe::coding {
namespace {

constexpr size_t kLineBytes = 64;

std::unexpected<std::string> wrong_size(int shard, size_t bytes, size_t expected) {
  return std::unexpected("buffer of shard " + std::to_string(shard) + " has " +
                         std::to_string(bytes) + " bytes, needs " + std::to_string(expected));
}

std::unexpected<std::string> wrong_count(size_t count, int expected) {
  return std::unexpected(std::to_string(count) + " buffers, need " + std::to_string(expected));
}

}  // namespace

Coder::Coder(const SegmentGeometry& geometry, const DecodePlan& plan)
    : geometry_(geometry),
      plan_(plan),
      in_(static_cast<size_t>(geometry.codec().shards())),
      out_(static_cast<size_t>(geometry.codec().shards())) {
  // Once, rather than by growth: setting up may not cost more than coding a small segment.
  const size_t most = in_.size();
  inputs_.reserve(most);
  outputs_.reserve(most);
  cuts_.reserve(most + 1);
  solution_.inputs.reserve(most);
  solution_.outputs.reserve(most);
  solution_.coefficients.reserve(most * static_cast<size_t>(geometry.codec().m()));
}

std::expected<Coder, std::string> Coder::encoder(const SegmentGeometry& geometry, State state,
                                                 std::span<const std::byte> segment,
                                                 std::span<const std::span<std::byte>> parities) {
  const Codec& codec = geometry.codec();
  if (segment.size() != geometry.length()) return std::unexpected("segment of another length");
  if (parities.size() != static_cast<size_t>(codec.m())) {
    return wrong_count(parities.size(), codec.m());
  }
  Coder coder(geometry, encode_plan(codec, state));
  coder.in_segment_ = true;
  coder.segment_in_ = segment.data();
  for (size_t j = 0; j < parities.size(); ++j) {
    const size_t shard = static_cast<size_t>(codec.k_prime()) + j;
    if (parities[j].size() != geometry.parity_shard_bytes(state)) {
      return wrong_size(static_cast<int>(shard), parities[j].size(),
                        geometry.parity_shard_bytes(state));
    }
    coder.out_[shard] = parities[j].data();
  }
  coder.load_codeword();
  return coder;
}

std::expected<Coder, std::string> Coder::decoder(
    const SegmentGeometry& geometry, const DecodePlan& plan, std::span<std::byte> segment,
    std::span<const std::span<const std::byte>> parities) {
  const Codec& codec = geometry.codec();
  if (segment.size() != geometry.length()) return std::unexpected("segment of another length");
  if (parities.size() != static_cast<size_t>(codec.m())) {
    return wrong_count(parities.size(), codec.m());
  }
  if ((plan.wanted & ~codec.data_shards()).any()) {
    return std::unexpected("a decoder computes data shards only");
  }
  Coder coder(geometry, plan);
  if (auto ok = coder.check_plan(); !ok) return std::unexpected(ok.error());
  coder.in_segment_ = true;
  coder.segment_in_ = segment.data();
  coder.segment_out_ = segment.data();
  for (size_t j = 0; j < parities.size(); ++j) {
    const size_t shard = static_cast<size_t>(codec.k_prime()) + j;
    if (!plan.read.test(shard)) continue;
    if (parities[j].size() != geometry.parity_shard_bytes(plan.state)) {
      return wrong_size(static_cast<int>(shard), parities[j].size(),
                        geometry.parity_shard_bytes(plan.state));
    }
    coder.in_[shard] = parities[j].data();
  }
  coder.load_codeword();
  return coder;
}

std::expected<Coder, std::string> Coder::rebuilder(
    const SegmentGeometry& geometry, const DecodePlan& plan,
    std::span<const std::span<const std::byte>> shards,
    std::span<const std::span<std::byte>> rebuilt) {
  const Codec& codec = geometry.codec();
  for (const size_t count : {shards.size(), rebuilt.size()}) {
    if (count != static_cast<size_t>(codec.shards())) return wrong_count(count, codec.shards());
  }
  Coder coder(geometry, plan);
  if (auto ok = coder.check_plan(); !ok) return std::unexpected(ok.error());
  for (int i = 0; i < codec.shards(); ++i) {
    const auto shard = static_cast<size_t>(i);
    const size_t expected = geometry.shard_bytes(plan.state, i);
    if (plan.read.test(shard)) {
      if (shards[shard].size() != expected) return wrong_size(i, shards[shard].size(), expected);
      coder.in_[shard] = shards[shard].data();
    }
    if (plan.wanted.test(shard)) {
      if (rebuilt[shard].size() != expected) return wrong_size(i, rebuilt[shard].size(), expected);
      coder.out_[shard] = rebuilt[shard].data();
    }
  }
  coder.load_codeword();
  return coder;
}

// Plans are plain values, so one may belong to another scheme: after this, no codeword can fail.
std::expected<void, std::string> Coder::check_plan() {
  const Codec& codec = geometry_.codec();
  const ShardSet shards = codec.data_shards() | codec.parity_shards();
  if ((plan_.missing & ~shards).any() || (plan_.wanted & ~plan_.missing).any() ||
      (plan_.read & (plan_.missing | ~shards)).any()) {
    return std::unexpected("the plan does not fit the scheme");
  }
  for (int c = 0; c < codec.layout().codewords(plan_.state); ++c) {
    if (!solve_codeword(codec, plan_, c, solution_)) {
      return std::unexpected("the plan does not read enough shards");
    }
  }
  return {};
}

// Sets up the first codeword from codeword_ on of which something is wanted.
void Coder::load_codeword() {
  const Layout& layout = geometry_.codec().layout();
  const size_t block_bytes = geometry_.block_bytes();
  position_ = 0;
  for (; !done(); ++codeword_) {
    solve_codeword(geometry_.codec(), plan_, codeword_, solution_);
    if (!solution_.outputs.empty()) break;
  }
  inputs_.clear();
  outputs_.clear();
  cuts_.assign(1, block_bytes);
  if (done()) return;

  std::array<int, kMaxDataNodes> block_on{};  // this codeword's block on a data node
  for (const uint16_t b : layout.codeword_blocks(plan_.state, codeword_)) {
    block_on[static_cast<size_t>(layout.node_of(b))] = b;
  }
  // Offset in its buffer, and real bytes, of this codeword's block on a shard.
  const auto locate = [&](int shard) -> std::pair<size_t, size_t> {
    if (shard >= geometry_.codec().k_prime()) {
      return {static_cast<size_t>(codeword_) * block_bytes, block_bytes};
    }
    const int b = block_on[static_cast<size_t>(shard)];
    if (!in_segment_) return {static_cast<size_t>(layout.row_of(b)) * block_bytes, block_bytes};
    const size_t length = geometry_.block_length(b);
    return {length == 0 ? 0 : geometry_.block_offset(b), length};
  };
  const auto in_segment = [&](int shard) {
    return in_segment_ && shard < geometry_.codec().k_prime();
  };
  for (const int shard : solution_.inputs) {
    const auto [offset, bytes] = locate(shard);
    const std::byte* base = in_segment(shard) ? segment_in_ : in_[static_cast<size_t>(shard)];
    inputs_.push_back({base + offset, bytes});
    cuts_.push_back(bytes);
  }
  for (const int shard : solution_.outputs) {
    const auto [offset, bytes] = locate(shard);
    std::byte* base = in_segment(shard) ? segment_out_ : out_[static_cast<size_t>(shard)];
    outputs_.push_back({base + offset, bytes});
    cuts_.push_back(bytes);
  }
  std::ranges::sort(cuts_);
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
}

bool Coder::step(size_t max_bytes) {
  const size_t block_bytes = geometry_.block_bytes();
  while (!done() && max_bytes > 0) {
    const size_t width = std::max<size_t>(1, inputs_.size());
    const size_t lines = std::max<size_t>(1, max_bytes / width / kLineBytes);
    const size_t end = position_ + std::min(block_bytes - position_, lines * kLineBytes);
    const size_t used = (end - position_) * width;
    combine_range(position_, end);
    max_bytes -= std::min(max_bytes, used);
    position_ = end;
    if (position_ < block_bytes) continue;
    ++codeword_;
    load_codeword();
  }
  return !done();
}

// Bytes [begin, end) of the current codeword's blocks. Blocks that end earlier are padding from
// there on: as inputs they add nothing, as outputs they are not stored, so nothing is ever padded.
void Coder::combine_range(size_t begin, size_t end) {
  std::array<const std::byte*, kMaxInputs> from;
  std::array<std::byte*, kMaxOutputs> to;
  std::array<uint8_t, kMaxInputs * kMaxOutputs> coefficients;
  for (const size_t cut : cuts_) {
    const size_t stop = std::min(cut, end);
    if (stop <= begin) continue;
    size_t columns = 0;
    size_t rows = 0;
    size_t cells = 0;
    for (const Input& input : inputs_) {
      if (input.bytes >= stop) from[columns++] = input.data + begin;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].bytes < stop) continue;
      to[rows++] = outputs_[i].data + begin;
      for (size_t j = 0; j < inputs_.size(); ++j) {
        if (inputs_[j].bytes < stop) continue;
        coefficients[cells++] = solution_.coefficients[i * inputs_.size() + j];
      }
    }
    combine(std::span(coefficients).first(cells), std::span(from).first(columns),
            std::span(to).first(rows), stop - begin);
    begin = stop;
  }
}

}  // namespace elastripe::coding
