#include "coding/transition_plan.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "coding/require.h"

namespace elastripe::coding {
namespace {

using BlockSet = std::bitset<kMaxBlocks>;

// [new codeword] -> the old codewords whose parities it starts from.
using Sources = std::vector<std::vector<uint16_t>>;

constexpr size_t kMaxCodewords = kMaxDataNodes;  // S = k' / gcd(k, k') and R = k / gcd(k, k')

std::vector<uint16_t> members(const BlockSet& set) {
  std::vector<uint16_t> blocks;
  for (size_t b = 0; b < set.size(); ++b) {
    if (set.test(b)) blocks.push_back(static_cast<uint16_t>(b));
  }
  return blocks;
}

BlockSet block_set(const Layout& layout, State state, int codeword) {
  BlockSet set;
  for (const uint16_t b : layout.codeword_blocks(state, codeword)) set.set(b);
  return set;
}

int overlap_count(const Layout& layout, int stripe, int row) {
  int count = 0;
  for (const uint16_t b : layout.stripe_blocks(stripe)) count += layout.row_of(b) == row ? 1 : 0;
  return count;
}

// ERS Algorithm 2, line 5. Of rows with equal overlap the first: the counts do not depend on it,
// and the paper's examples differ.
int best_row(const Layout& layout, int stripe) {
  std::vector<int> overlaps(static_cast<size_t>(layout.rows()));
  for (const uint16_t b : layout.stripe_blocks(stripe)) {
    ++overlaps[static_cast<size_t>(layout.row_of(b))];
  }
  return static_cast<int>(std::ranges::max_element(overlaps) - overlaps.begin());
}

// ERS Algorithm 2: [row] -> stripes.
Sources forward_sources(const Layout& layout) {
  Sources sources(static_cast<size_t>(layout.rows()));
  for (int i = 0; i < layout.stripes(); ++i) {
    sources[static_cast<size_t>(best_row(layout, i))].push_back(static_cast<uint16_t>(i));
  }
  return sources;
}

// ERS Algorithm 4: [stripe] -> its row, for the one stripe of each row that keeps its parities.
Sources backward_sources(const Layout& layout, bool order_selection) {
  Sources sources(static_cast<size_t>(layout.stripes()));
  const Sources forward = forward_sources(layout);
  for (int row = 0; row < layout.rows(); ++row) {
    const auto& candidates = forward[static_cast<size_t>(row)];
    if (candidates.empty()) continue;
    const auto less = [&](uint16_t a, uint16_t b) {
      return overlap_count(layout, a, row) < overlap_count(layout, b, row);
    };
    const auto kept = order_selection ? std::ranges::max_element(candidates, less)
                                      : std::ranges::min_element(candidates, less);
    sources[*kept].push_back(static_cast<uint16_t>(row));
  }
  return sources;
}

Sources choose_sources(const Codec& codec, Direction direction, const TransitionOptions& options) {
  const Layout& layout = codec.layout();
  if (codec.scheme().layout == LayoutKind::kSrs) {
    // srs scatters a stripe over the rows: parities help only if there is but one row.
    const bool parities_only = direction == Direction::kForward &&
                               codec.k_prime() % codec.scheme().k == 0 && codec.m() <= 2;
    const auto codewords = static_cast<size_t>(layout.codewords(state_after(direction)));
    if (!parities_only) return Sources(codewords);
  }
  return direction == Direction::kForward ? forward_sources(layout)
                                          : backward_sources(layout, options.order_selection);
}

// What each new codeword adds: its symmetric difference with its sources.
std::vector<BlockSet> added_blocks(const Layout& layout, Direction direction,
                                   const Sources& sources) {
  std::vector<BlockSet> sets;
  for (size_t c = 0; c < sources.size(); ++c) {
    BlockSet set = block_set(layout, state_after(direction), static_cast<int>(c));
    for (const uint16_t o : sources[c]) set ^= block_set(layout, state_before(direction), o);
    sets.push_back(set);
  }
  return sets;
}

BlockSet union_of(const std::vector<BlockSet>& sets) {
  return std::accumulate(sets.begin(), sets.end(), BlockSet(),
                         [](const BlockSet& a, const BlockSet& b) { return a | b; });
}

// Drops each source without which fewer blocks are read, and keeps `added` in step. Forward, a
// stripe without its parities costs as many reads as it has blocks in its row, whatever happens to
// the others: the result is the least. Backward, rows share blocks, and their order matters.
void apply_min_rule(const Codec& codec, Direction direction, Sources& sources,
                    std::vector<BlockSet>& added) {
  for (size_t c = 0; c < sources.size(); ++c) {
    std::erase_if(sources[c], [&](uint16_t o) {
      const BlockSet blocks = block_set(codec.layout(), state_before(direction), o);
      const size_t with = union_of(added).count() + static_cast<size_t>(codec.m());
      added[c] ^= blocks;
      const bool drop = union_of(added).count() < with;
      if (!drop) added[c] ^= blocks;
      return drop;
    });
  }
}

// Picks a basis of the sets, the smaller ones first, so that the deltas have the fewest terms; and
// names the deltas of which each codeword's set is the XOR.
void choose_deltas(const std::vector<BlockSet>& sets, TransitionPlan& plan) {
  struct Reduced {  // the XOR of the deltas in `terms`; no other one that follows holds `pivot`
    BlockSet set;
    std::bitset<kMaxCodewords> terms;
    uint16_t pivot;
  };
  require(sets.size() <= kMaxCodewords);
  std::vector<Reduced> basis;
  std::vector<size_t> order(sets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t c) { return std::pair(sets[c].count(), c); });
  for (const size_t c : order) {
    BlockSet rest = sets[c];
    std::bitset<kMaxCodewords> terms;
    for (const Reduced& reduced : basis) {
      if (!rest.test(reduced.pivot)) continue;
      rest ^= reduced.set;
      terms ^= reduced.terms;
    }
    if (rest.any()) {
      const size_t delta = plan.deltas.size();
      plan.deltas.push_back(members(sets[c]));
      basis.push_back({rest, terms.set(delta), members(rest).front()});
      terms.reset();
      terms.set(delta);
    }
    for (size_t d = 0; d < plan.deltas.size(); ++d) {
      if (terms.test(d)) plan.codewords[c].deltas.push_back(static_cast<uint16_t>(d));
    }
  }
}

}  // namespace

std::expected<TransitionPlan, std::string> transition_plan(const Codec& codec, Direction direction,
                                                           const TransitionOptions& options) {
  if (codec.scheme().layout == LayoutKind::kRs) {
    return std::unexpected(to_string(codec.scheme()) + " has only one state");
  }
  Sources sources = choose_sources(codec, direction, options);
  std::vector<BlockSet> sets = added_blocks(codec.layout(), direction, sources);
  if (options.min_rule) apply_min_rule(codec, direction, sources, sets);

  TransitionPlan plan;
  plan.direction = direction;
  plan.data_blocks = members(union_of(sets));
  for (size_t c = 0; c < sources.size(); ++c) {
    const auto& old = sources[c];
    plan.old_codewords.insert(plan.old_codewords.end(), old.begin(), old.end());
    plan.codewords.push_back({old, members(sets[c]), {}});
  }
  std::ranges::sort(plan.old_codewords);  // each starts one codeword at most
  choose_deltas(sets, plan);
  return plan;
}

std::expected<const TransitionPlan*, std::string> transition_plan_for(
    const Codec& codec, Direction direction, const TransitionOptions& options) {
  using Key = std::tuple<const Codec*, Direction, TransitionOptions>;
  static std::mutex mutex;
  static auto& plans = *new std::map<Key, TransitionPlan>;  // leaked on purpose, as codecs are

  const std::lock_guard lock(mutex);
  const Key key{&codec, direction, options};
  if (const auto known = plans.find(key); known != plans.end()) return &known->second;
  auto plan = transition_plan(codec, direction, options);
  if (!plan) return std::unexpected(std::move(plan.error()));
  return &plans.emplace(key, std::move(*plan)).first->second;
}

TransitionCost transition_cost(const TransitionPlan& plan, int m) {
  const int rho = static_cast<int>(plan.deltas.size());
  TransitionCost cost;
  cost.data_blocks = static_cast<int>(plan.data_blocks.size());
  cost.parity_blocks = m * static_cast<int>(plan.old_codewords.size());
  cost.proxy = cost.blocks_read() + m * static_cast<int>(plan.codewords.size());
  cost.delta = cost.data_blocks + m * rho;
  cost.hub = cost.data_blocks + (m - 1) * rho;
  return cost;
}

}  // namespace elastripe::coding
