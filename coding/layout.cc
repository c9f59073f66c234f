#include "coding/layout.h"

#include <numeric>
#include <utility>

#include "coding/require.h"

namespace elastripe::coding {
namespace {

// Index of [row][column] in an array of rows of `width`.
size_t index_of(int row, int width, int column = 0) {
  return static_cast<size_t>(row) * static_cast<size_t>(width) + static_cast<size_t>(column);
}

std::span<const uint16_t> slice(const std::vector<uint16_t>& all, int index, int width) {
  require(index >= 0 && static_cast<size_t>(index) < all.size() / static_cast<size_t>(width));
  return std::span(all).subspan(index_of(index, width), static_cast<size_t>(width));
}

}  // namespace

Layout::Layout(const Scheme& scheme)
    : k_(scheme.k), k_prime_(scheme.k_prime), cells_(static_cast<size_t>(std::lcm(k_, k_prime_))) {
  const bool srs = scheme.layout == LayoutKind::kSrs;
  for (int b = 0; b < blocks(); ++b) {
    // srs stripes take every S-th block, all others k consecutive ones.
    const int stripe = srs ? b % stripes() : b / k_;
    const int position = srs ? b / stripes() : b % k_;
    Cell& c = cells_[static_cast<size_t>(b)];
    c.stripe = static_cast<uint16_t>(stripe);
    c.position = static_cast<uint16_t>(position);
  }
  switch (scheme.layout) {
    case LayoutKind::kSrs:
      for (int b = 0; b < blocks(); ++b) place(b, b % rows(), b / rows());
      break;
    case LayoutKind::kRs:
    case LayoutKind::kErs1:
      for (int b = 0; b < blocks(); ++b) place(b, b / k_prime_, b % k_prime_);
      break;
    case LayoutKind::kErs2:
      place_ers2();
      break;
  }
  by_stripe_.resize(cells_.size());
  by_row_.resize(cells_.size());
  by_shard_.resize(cells_.size());
  for (int b = 0; b < blocks(); ++b) {
    const Cell& c = cell(b);
    const auto id = static_cast<uint16_t>(b);
    by_stripe_[index_of(c.stripe, k_, c.position)] = id;
    by_row_[index_of(c.row, k_prime_, c.node)] = id;
    by_shard_[index_of(c.node, rows(), c.row)] = id;
  }
}

void Layout::place(int b, int row, int node) {
  Cell& c = cells_[static_cast<size_t>(b)];
  c.row = static_cast<uint16_t>(row);
  c.node = static_cast<uint16_t>(node);
}

// ERS Algorithm 3. Each row takes q = floor(k'/k) whole stripes, side by side from a column that
// turns with the row; r = k' mod k cells of it stay free. The remaining beta stripes take the r
// free cells of one of the first beta rows and k - r of the free cells of the other rows. Line 11
// of the paper, corrected: the free cells of a row are used cyclically, from just after its
// stripes; from left to right a stripe can meet a node twice, as (7,11) does.
void Layout::place_ers2() {
  const int q = k_prime_ / k_;
  const int r = k_prime_ % k_;
  const int beta = stripes() - q * rows();
  using FreeCell = std::pair<int, int>;  // row, node
  std::vector<FreeCell> head;            // r free cells of each row below beta
  std::vector<FreeCell> rest;            // r free cells of each other row
  int b = 0;
  for (int row = 0; row < rows(); ++row) {
    const int start = (row < beta ? row * (k_ - r) : (row - beta + 1) * r) % k_prime_;
    for (int t = 0; t < q * k_; ++t) place(b++, row, (start + t) % k_prime_);
    auto& free = row < beta ? head : rest;
    for (int t = q * k_; t < k_prime_; ++t) free.emplace_back(row, (start + t) % k_prime_);
  }
  for (int i = 0; i < beta; ++i) {
    for (int t = 0; t < k_; ++t) {
      const auto [row, node] = t < r ? head[index_of(i, r, t)] : rest[index_of(i, k_ - r, t - r)];
      place(b++, row, node);
    }
  }
}

std::span<const uint16_t> Layout::stripe_blocks(int stripe) const {
  return slice(by_stripe_, stripe, k_);
}

std::span<const uint16_t> Layout::row_blocks(int row) const {
  return slice(by_row_, row, k_prime_);
}

std::span<const uint16_t> Layout::shard_blocks(int shard) const {
  return slice(by_shard_, shard, rows());
}

std::vector<uint16_t> Layout::overlap(int stripe, int row) const {
  std::vector<uint16_t> shared;
  for (const uint16_t b : stripe_blocks(stripe)) {
    if (row_of(b) == row) shared.push_back(b);
  }
  return shared;
}

}  // namespace elastripe::coding
