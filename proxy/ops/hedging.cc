#include "proxy/ops/hedging.h"

#include <algorithm>

namespace elastripe {
namespace {

constexpr Duration kLeast = std::chrono::milliseconds(1);  // below, it may be chance
constexpr int kTimesOthers = 3;
constexpr uint64_t kLookEvery = 10;     // shards of a node
constexpr uint64_t kRemembered = 1000;  // then what is older counts for half

}  // namespace

void Hedging::note_shard(node::NodeId node, Duration took) {
  if (node >= nodes_.size()) {
    nodes_.resize(node + size_t{1});
    p99s_.reserve(nodes_.size());
  }
  Node& of = nodes_[node];
  of.took.add(took);
  if (of.took.count() < kEnough || of.took.count() % kLookEvery != 0) return;
  of.p99 = of.took.quantile(0.99);
  if (of.took.count() >= kRemembered) of.took.halve();
  p99s_.clear();
  for (const Node& other : nodes_) {
    if (other.p99) p99s_.push_back(*other.p99);
  }
  const auto median = p99s_.begin() + static_cast<ptrdiff_t>((p99s_.size() - 1) / 2);
  std::ranges::nth_element(p99s_, median);
  most_ = kTimesOthers * std::max(*median, kLeast);
}

std::optional<Duration> Hedging::usual(node::NodeId node) const {
  if (node >= nodes_.size() || !nodes_[node].p99) return std::nullopt;
  return std::clamp(*nodes_[node].p99, kLeast, most_);
}

bool Hedging::is_slow(node::NodeId node) const {
  return node < nodes_.size() && nodes_[node].p99 && *nodes_[node].p99 > most_;
}

void Hedging::note_read() { reads_ = std::min(reads_ + 1, kBurst * kReadsPerHedge); }

bool Hedging::take_hedge() {
  if (reads_ < kReadsPerHedge) return false;
  reads_ -= kReadsPerHedge;
  return true;
}

}  // namespace elastripe
