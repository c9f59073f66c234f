// Where the blocks of a segment are: which stripe, which row, which node.
//
// A segment has l = lcm(k, k') data blocks D_0 .. D_{l-1} in an l/k' x k' array: a column is a data
// node and thus a data shard, a row is what is coded together in state wide. A stripe is the k
// blocks coded together in state narrow; its blocks are on k distinct nodes. A *codeword* is
// either: a stripe in state narrow, a row in state wide, each with m parities of its own.
//
//   rs     one stripe that is also the one row; k' = k
//   srs    column-major: shard i is the i-th slice of the segment
//   ers-1  row-major: block b is in row b / k' on node b mod k'
//   ers-2  ERS Algorithm 3: as many stripes as possible lie within one row
//
// Immutable after construction; any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coding/require.h"
#include "coding/scheme.h"

namespace elastripe::coding {

class Layout {
 public:
  // `scheme` must be valid (see validate).
  explicit Layout(const Scheme& scheme);

  int k() const { return k_; }
  int k_prime() const { return k_prime_; }
  int blocks() const { return static_cast<int>(cells_.size()); }  // l
  int stripes() const { return blocks() / k_; }                   // S = l/k
  int rows() const { return blocks() / k_prime_; }                // R = l/k'

  // Where block b lies, 0 <= b < blocks().
  int stripe_of(int b) const { return cell(b).stripe; }
  int position_of(int b) const { return cell(b).position; }  // in its stripe, 0..k-1
  int row_of(int b) const { return cell(b).row; }            // also its index in its data shard
  int node_of(int b) const { return cell(b).node; }          // also its data shard, 0..k'-1

  // The k blocks of a stripe by position, the k' blocks of a row by node, and the l/k' blocks of a
  // data shard by row.
  std::span<const uint16_t> stripe_blocks(int stripe) const;
  std::span<const uint16_t> row_blocks(int row) const;
  std::span<const uint16_t> shard_blocks(int shard) const;

  // The blocks that a stripe has in a row, in position order: the overlap that transitions use.
  std::vector<uint16_t> overlap(int stripe, int row) const;

  // Codewords of a segment in `state`, and the data blocks of one. Parity j of codeword c is block
  // c of parity shard j.
  int codewords(State state) const { return state == State::kNarrow ? stripes() : rows(); }
  std::span<const uint16_t> codeword_blocks(State state, int codeword) const {
    return state == State::kNarrow ? stripe_blocks(codeword) : row_blocks(codeword);
  }

 private:
  struct Cell {
    uint16_t stripe, position, row, node;
  };

  const Cell& cell(int b) const {
    require(b >= 0 && b < blocks());
    return cells_[static_cast<size_t>(b)];
  }
  void place(int b, int row, int node);
  void place_ers2();

  int k_;
  int k_prime_;
  std::vector<Cell> cells_;
  std::vector<uint16_t> by_stripe_;  // [stripe][position]
  std::vector<uint16_t> by_row_;     // [row][node]
  std::vector<uint16_t> by_shard_;   // [node][row]
};

}  // namespace elastripe::coding
