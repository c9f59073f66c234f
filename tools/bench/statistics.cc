#include "tools/bench/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace elastripe::bench {
namespace {

// Values below 2^kLinearBits have a bucket each; from there on every power of two has
// 2^(kLinearBits - 1) of them.
constexpr int kLinearBits = 8;
constexpr int kLargestBits = 42;
constexpr uint64_t kLargest = (uint64_t{1} << kLargestBits) - 1;
constexpr uint64_t kHalf = uint64_t{1} << (kLinearBits - 1);

size_t bucket_of(uint64_t value) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kLinearBits);
  return static_cast<size_t>(static_cast<uint64_t>(shift) * kHalf + (value >> shift));
}

// The middle of a bucket.
uint64_t value_of(size_t bucket) {
  if (bucket < 2 * kHalf) return bucket;
  const uint64_t shift = bucket / kHalf - 1;
  return ((bucket - shift * kHalf) << shift) + ((uint64_t{1} << shift) >> 1);
}

}  // namespace

double quantile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  const double place = fraction * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<size_t>(place);
  return std::lerp(samples[below], samples[std::min(below + 1, samples.size() - 1)],
                   place - static_cast<double>(below));
}

Histogram::Histogram() : counts_(bucket_of(kLargest) + 1) {}

void Histogram::record(std::chrono::nanoseconds value) {
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(value.count(), 0));
  ++counts_[bucket_of(std::min(ns, kLargest))];
  ++count_;
}

void Histogram::add(const Histogram& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
}

std::chrono::nanoseconds Histogram::quantile(double fraction) const {
  const auto rank = std::max<uint64_t>(
      1, static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::chrono::nanoseconds(static_cast<int64_t>(value_of(i)));
  }
  return std::chrono::nanoseconds(0);
}

}  // namespace elastripe::bench
