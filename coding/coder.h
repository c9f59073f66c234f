// Encodes and decodes one segment, in slices.
//
// A Coder computes the wanted shards of a plan from the shards that were read. It works in steps,
// so that a loop thread stays responsive and data shards can leave while parities are computed:
//
//   auto coder = Coder::encoder(geometry, state, segment, parities);
//   while (coder->step(kStepBytes)) co_await turn;
//
// Shard buffers are indexed as everywhere: data shard i, then parity shard k' + j. A Coder points
// into the buffers it was given: they must stay, and inputs must not change, until it is done.
// Outputs must not overlap inputs or each other. One thread at a time.
#pragma once

#include <cstddef>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "coding/decode_plan.h"
#include "coding/segment.h"

namespace elastripe::coding {

// Input bytes of one step that stay well below a millisecond.
inline constexpr size_t kStepBytes = size_t{512} << 10;

class Coder {
 public:
  // Computes all m parity shards of `state` from the segment's length() bytes. `parities` has m
  // buffers of parity_shard_bytes(state). Padding need not exist anywhere.
  static std::expected<Coder, std::string> encoder(const SegmentGeometry& geometry, State state,
                                                   std::span<const std::byte> segment,
                                                   std::span<const std::span<std::byte>> parities);

  // Degraded read: computes the wanted data shards of `plan` in place. `segment` has length()
  // bytes and holds the data shards of plan.read where shard_extents puts them; exactly the bytes
  // of the wanted shards are written. `parities` has m buffers, of parity_shard_bytes(plan.state)
  // where plan.read names them; others are not looked at. Fails if the plan wants a parity shard.
  static std::expected<Coder, std::string> decoder(
      const SegmentGeometry& geometry, const DecodePlan& plan, std::span<std::byte> segment,
      std::span<const std::span<const std::byte>> parities);

  // Repair: computes the wanted shards of `plan`, data or parity, from shards as nodes keep them,
  // padding included. Both spans have k' + m buffers, of shard_bytes() where plan.read and
  // plan.wanted name them; others are not looked at.
  static std::expected<Coder, std::string> rebuilder(
      const SegmentGeometry& geometry, const DecodePlan& plan,
      std::span<const std::span<const std::byte>> shards,
      std::span<const std::span<std::byte>> rebuilt);

  // Computes until about `max_bytes` input bytes (at least one cache line of each input) were used.
  // True while work remains.
  bool step(size_t max_bytes);

  // All that remains, at once.
  void finish() { step(SIZE_MAX); }

  bool done() const { return codeword_ == geometry_.codec().layout().codewords(plan_.state); }

 private:
  // A block's bytes that are really there: `bytes` of block_bytes, then padding.
  struct Input {
    const std::byte* data;
    size_t bytes;
  };
  struct Output {
    std::byte* data;
    size_t bytes;
  };

  Coder(const SegmentGeometry& geometry, const DecodePlan& plan);

  std::expected<void, std::string> check_plan();
  void load_codeword();
  void combine_range(size_t begin, size_t end);

  SegmentGeometry geometry_;
  DecodePlan plan_;

  // Buffers by shard, null where not used. With in_segment_, data blocks are in
  // the segment instead.
  bool in_segment_ = false;
  const std::byte* segment_in_ = nullptr;
  std::byte* segment_out_ = nullptr;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;

  int codeword_ = 0;           // the next one to work on
  size_t position_ = 0;        // the next byte of its blocks
  CodewordSolution solution_;  // of codeword_
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<size_t> cuts_;  // where some input or output ends, ascending; the last is block_bytes
};

}  // namespace elastripe::coding
