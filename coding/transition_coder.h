// Computes what a transition sends, in slices: the deltas (execution `delta`) or the new parities
// (execution `proxy`) of one segment. What a parity node makes of deltas is SHARD_BUILD's part.
//
//   auto coder = TransitionCoder::deltas(codec, plan, block_bytes, blocks, deltas);
//   while (coder->step(kStepBytes)) co_await turn;
//
// Data blocks are given by their number, as l spans of which only plan.data_blocks are looked at.
// One may be shorter than block_bytes, or empty, at the end of a short segment: what is missing is
// padding and counts as zeros. A coder points into the buffers and the codec that it was given, not
// into the plan: buffers must stay, and inputs must not change, until it is done. Outputs must not
// overlap inputs or each other. One thread at a time.
#pragma once

#include <cstddef>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "coding/transition_plan.h"

namespace elastripe::coding {

class TransitionCoder {
 public:
  // Buffer j of the m `deltas` becomes what parity node j receives: plan.deltas.size() blocks, in
  // that order. Fails if the plan is not one of the codec's scheme, or sizes do not fit.
  static std::expected<TransitionCoder, std::string> deltas(
      const Codec& codec, const TransitionPlan& plan, size_t block_bytes,
      std::span<const std::span<const std::byte>> blocks,
      std::span<const std::span<std::byte>> deltas);

  // Computes the m parity shards of the new state from those of the old one. Fails as above.
  static std::expected<TransitionCoder, std::string> parities(
      const Codec& codec, const TransitionPlan& plan, size_t block_bytes,
      std::span<const std::span<const std::byte>> blocks,
      std::span<const std::span<const std::byte>> old_parities,
      std::span<const std::span<std::byte>> new_parities);

  // Computes until about `max_bytes` input bytes (at least one cache line of each input) were used.
  // True while work remains.
  bool step(size_t max_bytes);

  // All that remains, at once.
  void finish() { step(SIZE_MAX); }

  bool done() const { return sum_ == sums_.size(); }

 private:
  struct Term {
    const std::byte* data;
    size_t bytes;  // that are really there
    int node;
  };
  // One block of each output buffer: blocks by coefficient, and blocks of the old parity shards.
  struct Sum {
    std::vector<Term> terms;
    std::vector<uint16_t> old;
    std::vector<size_t> cuts;  // where some term ends, ascending; the last is block_bytes
  };

  TransitionCoder(const Codec& codec, size_t block_bytes)
      : codec_(&codec), block_bytes_(block_bytes) {}

  std::expected<void, std::string> check(const TransitionPlan& plan,
                                         std::span<const std::span<const std::byte>> blocks) const;
  void add_sum(const std::vector<uint16_t>& terms, const std::vector<uint16_t>& old,
               std::span<const std::span<const std::byte>> blocks);
  void combine_range(size_t begin, size_t end);
  void combine_piece(size_t begin, size_t end);

  const Codec* codec_;
  size_t block_bytes_;
  std::vector<Sum> sums_;
  std::vector<const std::byte*> old_;  // [parity]; none for deltas
  std::vector<std::byte*> out_;        // [parity]

  size_t sum_ = 0;       // the next one to work on
  size_t position_ = 0;  // the next byte of its blocks
};

}  // namespace elastripe::coding
