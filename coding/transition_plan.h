// How the new parities of a segment come out of its old ones: ERS Algorithm 2 (forward) and
// Algorithm 4 (backward).
//
// A data block counts G[j][node] in parity j of whatever codeword it is in, in both states. So the
// parities of a new codeword c can start from those of any old codewords, and what then differs is
// the blocks that are in c or in those codewords, but not in both:
//
//   new[c][j] = sum of old[o][j], o in c.old  +  sum of G[j][node(b)] * D_b, b in c.blocks
//
// where c.blocks is the symmetric difference of c and all of c.old. A plan is a choice of the old
// codewords; these *non-overlapping blocks* N are what has to be read.
//
//   forward    a stripe's parities start the row that holds most of its blocks
//   backward   a row's parities start the stripe that overlaps it most, of those that the forward
//              transition adds to it; all other stripes are computed from their blocks
//   srs        no old parities, all blocks; but forward, if k divides k' and m <= 2, only parities
//
// The second sum is a *delta*, and only it needs blocks. So old parities need not travel
// (execution `delta`): a parity node can XOR its own old parities and received deltas. A delta that
// is the XOR of others is not sent: `deltas` is a basis over GF(2) of the codewords' deltas.
//
// Any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "coding/codec.h"

namespace elastripe::coding {

enum class Direction : uint8_t {
  kForward,   // narrow to wide
  kBackward,  // wide to narrow
};

constexpr State state_before(Direction direction) {
  return direction == Direction::kForward ? State::kNarrow : State::kWide;
}
constexpr State state_after(Direction direction) {
  return direction == Direction::kForward ? State::kWide : State::kNarrow;
}

struct TransitionOptions {
  // Drops old codewords whose m parities cost more reads than they save (a stripe that has fewer
  // than m blocks in its row), one after another. Pays only where old parities travel: more data
  // blocks may be read instead.
  bool min_rule = false;
  // Algorithm 4's choice of the stripe that a row's parities start. Off, for comparison: the one
  // that overlaps least (ERS Experiment 5).
  bool order_selection = true;

  friend auto operator<=>(const TransitionOptions&, const TransitionOptions&) = default;
};

struct TransitionPlan {
  // A codeword of the new state. A parity node computes block c of its new parity shard as the XOR
  // of blocks `old` of its old shard and of the received deltas `deltas`.
  struct Codeword {
    std::vector<uint16_t> old;     // codewords of the old state
    std::vector<uint16_t> blocks;  // data blocks to add
    std::vector<uint16_t> deltas;  // indices of TransitionPlan::deltas that add up to `blocks`
  };

  // All lists ascend, except that of the deltas.
  Direction direction = Direction::kForward;
  std::vector<Codeword> codewords;            // by new codeword
  std::vector<uint16_t> data_blocks;          // N: all that some codeword adds
  std::vector<uint16_t> old_codewords;        // all that some codeword starts from
  std::vector<std::vector<uint16_t>> deltas;  // [delta] -> data blocks; rho of them
};

// Fails for schemes without a transition: rs and rep.
std::expected<TransitionPlan, std::string> transition_plan(const Codec& codec, Direction direction,
                                                           const TransitionOptions& options = {});

// The same plan, made once for each codec, direction and options; lives as long as the process.
std::expected<const TransitionPlan*, std::string> transition_plan_for(
    const Codec& codec, Direction direction, const TransitionOptions& options = {});

// Blocks that cross the network, reads and writes, for one segment.
struct TransitionCost {
  int data_blocks = 0;    // read: |N|
  int parity_blocks = 0;  // read by execution proxy: m for each old codeword

  // Reads N and the old parities, writes m blocks for each new codeword (the paper's execution).
  int proxy = 0;
  // Reads N, writes m * rho deltas. For srs where it encodes anew: l + m for each new codeword.
  int delta = 0;
  // One parity node reads N, computes all deltas, keeps its own and sends rho to each of the
  // others: N + (m - 1) * rho. Assumes that nodes may send to each other, that the coordinator
  // stays out of the data path, and that a parity node has the time to compute.
  int hub = 0;

  // The paper's count (ERS section 6.1).
  int blocks_read() const { return data_blocks + parity_blocks; }
};

// What a plan costs for a scheme with m parities.
TransitionCost transition_cost(const TransitionPlan& plan, int m);

}  // namespace elastripe::coding
