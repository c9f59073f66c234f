// Count, mean, quantiles and maximum of durations, in fixed space whatever their number.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

namespace elastripe {

// Counts durations in buckets (as HdrHistogram does), `kPerOctave` to an octave of nanoseconds, a
// power of two: quantiles are at most that part of them above the true ones, and never outside of
// what was added; of a single duration all is exact.
template <size_t kPerOctave>
class DurationSummary {
 public:
  using Duration = std::chrono::nanoseconds;

  void add(Duration duration) {
    least_ = std::min(least_, duration);
    most_ = std::max(most_, duration);
    total_ += duration;
    ++count_;
    ++buckets_[bucket_of(duration)];
  }
  void add(const DurationSummary& other) {
    least_ = std::min(least_, other.least_);
    most_ = std::max(most_, other.most_);
    total_ += other.total_;
    count_ += other.count_;
    for (size_t b = 0; b < kBuckets; ++b) buckets_[b] += other.buckets_[b];
  }

  // What was added so far counts for half from now on; what was there once is forgotten.
  void halve() {
    total_ /= 2;
    count_ = 0;
    for (uint64_t& bucket : buckets_) count_ += bucket /= 2;
  }

  uint64_t count() const { return count_; }
  // Zero of none, as all below.
  Duration mean() const {
    return count_ == 0 ? Duration::zero() : total_ / static_cast<int64_t>(count_);
  }
  Duration most() const { return count_ == 0 ? Duration::zero() : most_; }

  // The duration that `fraction` (0 to 1) of all do not exceed.
  Duration quantile(double fraction) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
    uint64_t seen = 0;
    for (size_t b = 0; b < kBuckets; ++b) {
      seen += buckets_[b];
      if (seen > 0 && seen >= wanted) return std::clamp(last_of(b), least_, most_);
    }
    return Duration::zero();
  }

 private:
  static_assert(std::has_single_bit(kPerOctave));
  static constexpr size_t kLinearBits = std::bit_width(kPerOctave);  // each value has its bucket
  static constexpr size_t kLargestBits = 42;                         // an hour; above: as that
  static constexpr size_t kBuckets = (kLargestBits - kLinearBits + 2) * kPerOctave;

  // The leading bit and those after it that tell the part of the octave.
  static size_t bucket_of(Duration duration) {
    const auto ns = static_cast<uint64_t>(std::max<int64_t>(duration.count(), 0));
    const auto bits = static_cast<size_t>(std::bit_width(ns));
    const size_t shift = bits > kLinearBits ? bits - kLinearBits : 0;
    return std::min(shift * kPerOctave + (ns >> shift), kBuckets - 1);
  }
  static Duration last_of(size_t bucket) {
    const size_t shift = std::max<size_t>(bucket / kPerOctave, 1) - 1;
    const uint64_t next = (bucket + 1 - shift * kPerOctave) << shift;
    return Duration(static_cast<int64_t>(next - 1));
  }

  uint64_t count_ = 0;
  Duration total_{};
  Duration least_ = Duration::max();
  Duration most_ = Duration::min();
  std::vector<uint64_t> buckets_ = std::vector<uint64_t>(kBuckets);
};

}  // namespace elastripe
