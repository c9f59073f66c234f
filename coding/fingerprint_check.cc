#include <algorithm>

#include "coding/decode_plan.h"
#include "coding/fingerprint.h"
#include "coding/require.h"

namespace elastripe::coding {
namespace {

void add_product(uint8_t coefficient, const Fingerprint& from, Fingerprint& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] ^= gf_multiply(coefficient, from[i]);
}

// The fingerprints of one codeword, by shard.
class Codeword {
 public:
  Codeword(const Codec& codec, State state, int number,
           std::span<const std::vector<Fingerprint>> shards)
      : codec_(codec), state_(state), number_(number) {
    for (const uint16_t b : codec.layout().codeword_blocks(state, number)) {
      add(codec.layout().node_of(b), codec.layout().row_of(b), shards);
    }
    for (int shard = codec.k_prime(); shard < codec.shards(); ++shard) add(shard, number, shards);
  }

  // Those with a block in it that is known.
  const ShardSet& known() const { return known_; }

  // Whether all blocks that are known, but for those on `excluded`, fit together. False also if
  // no block is left to compare: nothing tells then.
  bool fits_without(const ShardSet& excluded) {
    const ShardSet used = known_ & ~excluded;
    const ShardSet unknown = shards_ & ~used;
    // What is excluded of other codewords is not wanted: it must not cost parities here.
    const auto plan = decode_plan(codec_, state_, unknown, unknown & codec_.data_shards());
    if (!plan || !solve_codeword(codec_, *plan, number_, solution_)) return false;
    const ShardSet compared = used & codec_.parity_shards() & ~plan->read;
    if (compared.none()) return false;
    std::array<Fingerprint, kMaxShards> whole = blocks_;
    for (size_t i = 0; i < solution_.outputs.size(); ++i) {
      Fingerprint& made = whole[static_cast<size_t>(solution_.outputs[i])];
      made = {};
      for (size_t j = 0; j < solution_.inputs.size(); ++j) {
        add_product(solution_.coefficients[i * solution_.inputs.size() + j],
                    blocks_[static_cast<size_t>(solution_.inputs[j])], made);
      }
    }
    for (int j = 0; j < codec_.m(); ++j) {
      const auto shard = static_cast<size_t>(codec_.k_prime()) + static_cast<size_t>(j);
      if (!compared.test(shard)) continue;
      Fingerprint expected{};
      for (int node = 0; node < codec_.k_prime(); ++node) {
        const auto data = static_cast<size_t>(node);
        if (shards_.test(data)) add_product(codec_.coefficient(j, node), whole[data], expected);
      }
      if (expected != blocks_[shard]) return false;
    }
    return true;
  }

  bool has_to_compare(const ShardSet& excluded = {}) const {
    return (known_ & ~excluded).count() > (shards_ & codec_.data_shards()).count();
  }

 private:
  void add(int shard, int block, std::span<const std::vector<Fingerprint>> shards) {
    const auto at = static_cast<size_t>(shard);
    shards_.set(at);
    if (shards[at].empty()) return;
    require(static_cast<size_t>(block) < shards[at].size());
    blocks_[at] = shards[at][static_cast<size_t>(block)];
    known_.set(at);
  }

  const Codec& codec_;
  const State state_;
  const int number_;
  ShardSet shards_;  // those with a block in it
  ShardSet known_;
  std::array<Fingerprint, kMaxShards> blocks_{};
  CodewordSolution solution_;
};

}  // namespace

FingerprintCheck check_fingerprints(const Codec& codec, State state,
                                    std::span<const std::vector<Fingerprint>> shards) {
  require(shards.size() == static_cast<size_t>(codec.shards()));
  FingerprintCheck check;
  std::vector<Codeword> contradictory;
  for (int c = 0; c < codec.layout().codewords(state); ++c) {
    Codeword codeword(codec, state, c, shards);
    if (!codeword.has_to_compare() || codeword.fits_without({})) continue;
    ShardSet explanations;
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      ShardSet one;
      one.set(shard);
      if (codeword.known().test(shard) && codeword.fits_without(one)) explanations |= one;
    }
    if (explanations.count() == 1) check.wrong |= explanations;
    contradictory.push_back(std::move(codeword));
  }
  // Shards that are wrong elsewhere, each by itself, may meet in a codeword, and if the same was
  // done to both, a third one alone explains that codeword, too.
  const auto explain = [&](const ShardSet& wrong) {
    return std::ranges::all_of(contradictory, [&](Codeword& codeword) {
      return !codeword.has_to_compare(wrong) || codeword.fits_without(wrong);
    });
  };
  ShardSet needed;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    if (check.wrong.test(shard) && !explain(ShardSet(check.wrong).reset(shard))) needed.set(shard);
  }
  check.wrong = needed;
  check.has_unexplained = !explain(needed);
  return check;
}

}  // namespace elastripe::coding
