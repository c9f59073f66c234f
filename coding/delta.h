// What a change of some bytes of a segment is to its shards: which bytes of which data shards, and
// what is to be added to the parity shards.
//
// The codes are linear: old XOR new of a data block, times the coefficient of its node, is old XOR
// new of each parity block of its codeword, at the same place of the block. So nobody needs the
// rest of a codeword to update its parities; and all that comes to one place of a codeword, from
// several data blocks or from one of them several times, is added up first and sent once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "coding/segment.h"

namespace elastripe::coding {

// Bytes that lie together both in a segment and in one of its data shards.
struct DataExtent {
  int shard = 0;  // 0..k'-1
  size_t shard_offset = 0;
  size_t segment_offset = 0;
  size_t bytes = 0;

  friend bool operator==(const DataExtent&, const DataExtent&) = default;
};

// Where bytes [offset, offset + bytes) of the segment lie, which are within its length: as few
// pieces as there can be, in the order of the segment. Those of one shard need not ascend in it.
std::vector<DataExtent> data_extents(const SegmentGeometry& geometry, size_t offset, size_t bytes);

// Old XOR new of bytes of one data shard, from `offset` on.
struct DataDelta {
  int shard = 0;  // 0..k'-1
  size_t offset = 0;
  std::span<const std::byte> bytes;
};

struct ByteRange {
  size_t offset = 0;
  size_t bytes = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// Computes, in slices, what deltas of data shards make of the parity shards of a segment:
//
//   ParityDeltas sums(geometry, state, deltas);
//   while (sums.step(kStepBytes)) co_await turn;
//
// The deltas may overlap, and come in any order. The codec, and the bytes of the deltas, must stay
// until it is done. One thread at a time.
class ParityDeltas {
 public:
  // All deltas lie within data shards of the segment.
  ParityDeltas(const SegmentGeometry& geometry, State state, std::span<const DataDelta> deltas);

  // Computes until about `max_bytes` bytes of deltas were used. True while work remains.
  bool step(size_t max_bytes);

  // All that remains, at once.
  void finish() { step(SIZE_MAX); }

  bool done() const { return term_ == terms_.size(); }

  // Where the parity shards change, ascending and with gaps between them. They are the same of all
  // of them, as no coefficient is zero.
  const std::vector<ByteRange>& ranges() const { return ranges_; }
  // Old XOR new of all ranges of parity shard k' + parity, one after the other. Only once it is
  // done.
  std::span<const std::byte> bytes(int parity) const;

 private:
  // A piece of a delta that lies in one block.
  struct Term {
    std::span<const std::byte> delta;
    size_t at = 0;  // in a parity shard; after the ranges are known, in sums_
    int node = 0;
  };

  void add_terms(const SegmentGeometry& geometry, State state, const DataDelta& delta);
  void make_ranges();

  const Codec* codec_;
  std::vector<Term> terms_;
  std::vector<ByteRange> ranges_;
  std::vector<std::vector<std::byte>> sums_;  // [parity]

  size_t term_ = 0;      // the next one to work on
  size_t position_ = 0;  // its next byte
};

}  // namespace elastripe::coding
