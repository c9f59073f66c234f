#include "coding/decode_plan.h"

#include <algorithm>
#include <array>

#include "coding/gf.h"

namespace elastripe::coding {
namespace {

bool has(const ShardSet& set, int shard) { return set.test(static_cast<size_t>(shard)); }

// At most kMaxDataNodes node numbers, without a heap: codewords can be as short as a packet.
class NodeList {
 public:
  void push_back(int node) { nodes_[size_++] = static_cast<uint8_t>(node); }
  size_t size() const { return size_; }
  int operator[](size_t i) const { return nodes_[i]; }
  const uint8_t* begin() const { return nodes_.data(); }
  const uint8_t* end() const { return nodes_.data() + size_; }

 private:
  size_t size_ = 0;
  std::array<uint8_t, kMaxDataNodes> nodes_;
};

// Data nodes of one codeword.
struct Nodes {
  NodeList present;
  NodeList missing;
  bool concerned = false;  // the plan wants a block of this codeword
};

Nodes nodes_of(const Codec& codec, const DecodePlan& plan, int codeword) {
  Nodes nodes;
  nodes.concerned = (plan.wanted & codec.parity_shards()).any();
  for (const uint16_t b : codec.layout().codeword_blocks(plan.state, codeword)) {
    const int node = codec.layout().node_of(b);
    (has(plan.missing, node) ? nodes.missing : nodes.present).push_back(node);
    nodes.concerned |= has(plan.wanted, node);
  }
  return nodes;
}

}  // namespace

std::expected<DecodePlan, std::string> decode_plan(const Codec& codec, State state,
                                                   const ShardSet& missing,
                                                   const ShardSet& wanted) {
  const ShardSet shards = codec.data_shards() | codec.parity_shards();
  if ((missing & ~shards).any()) return std::unexpected("missing names a shard that is not there");
  if ((wanted & ~missing).any()) return std::unexpected("wanted names a shard that is not missing");

  DecodePlan plan{state, missing, wanted, {}};
  size_t parities = 0;  // most that one codeword needs
  for (int c = 0; c < codec.layout().codewords(state); ++c) {
    const Nodes nodes = nodes_of(codec, plan, c);
    if (!nodes.concerned) continue;
    parities = std::max(parities, nodes.missing.size());
    for (const int node : nodes.present) plan.read.set(static_cast<size_t>(node));
  }
  // The first ones: parity 0 is a plain sum.
  for (int shard = codec.k_prime(); shard < codec.shards() && parities > 0; ++shard) {
    if (has(missing, shard)) continue;
    plan.read.set(static_cast<size_t>(shard));
    --parities;
  }
  if (parities > 0) {
    return std::unexpected(std::to_string(missing.count()) + " missing shards of " +
                           to_string(codec.scheme()) + " cannot be decoded");
  }
  return plan;
}

DecodePlan encode_plan(const Codec& codec, State state) {
  return {state, codec.parity_shards(), codec.parity_shards(), codec.data_shards()};
}

bool solve_codeword(const Codec& codec, const DecodePlan& plan, int codeword,
                    CodewordSolution& solution) {
  solution.inputs.clear();
  solution.outputs.clear();
  solution.coefficients.clear();
  const Nodes nodes = nodes_of(codec, plan, codeword);
  if (!nodes.concerned) return true;

  const int k_prime = codec.k_prime();
  const size_t lost = nodes.missing.size();
  for (const int node : nodes.present) {
    if (!has(plan.read, node)) return false;
  }
  solution.inputs.assign(nodes.present.begin(), nodes.present.end());
  NodeList parities;  // indexes of parities that are read, as many as nodes are missing
  for (int j = 0; j < codec.m() && parities.size() < lost; ++j) {
    if (!has(plan.read, k_prime + j)) continue;
    parities.push_back(j);
    solution.inputs.push_back(k_prime + j);
  }
  if (parities.size() < lost) return false;

  // parity_j = sum of G[j][p] D_p over present p + sum of G[j][x] D_x over missing x, so
  // D_x = sum over j of inverse[x][j] * (parity_j + sum of G[j][p] D_p).
  std::vector<uint8_t> square(lost * lost);
  std::vector<uint8_t> inverse;
  for (size_t j = 0; j < lost; ++j) {
    for (size_t x = 0; x < lost; ++x) {
      square[j * lost + x] = codec.coefficient(parities[j], nodes.missing[x]);
    }
  }
  if (!invert(square, lost, inverse)) return false;

  const size_t width = solution.inputs.size();
  std::vector<uint8_t> decoded(lost * width);  // [missing node][input]
  for (size_t x = 0; x < lost; ++x) {
    for (size_t j = 0; j < lost; ++j) {
      const uint8_t factor = inverse[x * lost + j];
      for (size_t p = 0; p < nodes.present.size(); ++p) {
        decoded[x * width + p] ^=
            gf_multiply(factor, codec.coefficient(parities[j], nodes.present[p]));
      }
      decoded[x * width + nodes.present.size() + j] = factor;
    }
  }
  for (size_t x = 0; x < lost; ++x) {
    if (!has(plan.wanted, nodes.missing[x])) continue;
    solution.outputs.push_back(nodes.missing[x]);
    const auto row = decoded.begin() + static_cast<std::ptrdiff_t>(x * width);
    solution.coefficients.insert(solution.coefficients.end(), row,
                                 row + static_cast<std::ptrdiff_t>(width));
  }
  for (int w = 0; w < codec.m(); ++w) {
    if (!has(plan.wanted, k_prime + w)) continue;
    solution.outputs.push_back(k_prime + w);
    const size_t at = solution.coefficients.size();
    solution.coefficients.resize(at + width);
    for (size_t p = 0; p < nodes.present.size(); ++p) {
      solution.coefficients[at + p] = codec.coefficient(w, nodes.present[p]);
    }
    for (size_t x = 0; x < lost; ++x) {
      const uint8_t factor = codec.coefficient(w, nodes.missing[x]);
      for (size_t i = 0; i < width; ++i) {
        solution.coefficients[at + i] ^= gf_multiply(factor, decoded[x * width + i]);
      }
    }
  }
  return true;
}

}  // namespace elastripe::coding
