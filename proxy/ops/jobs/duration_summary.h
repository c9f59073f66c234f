// Mean, quantiles and maximum of durations, in fixed space whatever their number.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "proxy/async/clock.h"

namespace elastripe::jobs {

// Counts durations in buckets, 16 to an octave of microseconds: quantiles are at most 1/16 above
// the true ones, and never outside of what was added; of a single duration all is exact.
class DurationSummary {
 public:
  void add(Duration duration) {
    least_ = count_ == 0 ? duration : std::min(least_, duration);
    most_ = std::max(most_, duration);
    total_ += duration;
    ++count_;
    ++buckets_[bucket_of(duration)];
  }

  uint64_t count() const { return count_; }
  Duration mean() const {
    return count_ == 0 ? Duration::zero() : total_ / static_cast<int64_t>(count_);
  }
  Duration most() const { return most_; }

  // The duration that `fraction` (0 to 1) of all do not exceed; zero of none.
  Duration quantile(double fraction) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
    uint64_t seen = 0;
    for (size_t b = 0; b < kBuckets; ++b) {
      seen += buckets_[b];
      if (seen > 0 && seen >= wanted) {
        return std::clamp(upper_end(b), least_, most_);
      }
    }
    return most_;
  }

 private:
  static constexpr size_t kPerOctave = 16;
  static constexpr size_t kBuckets = 32 * kPerOctave;  // up to an hour

  // The leading bit of the microseconds and the four bits after it.
  static size_t bucket_of(Duration duration) {
    const auto us = static_cast<uint64_t>(std::max<int64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(duration).count(), 0));
    if (us < kPerOctave) return us;
    const auto octave = static_cast<size_t>(std::bit_width(us)) - 5;  // 16..31 us: 0
    const size_t bucket = (octave + 1) * kPerOctave + ((us >> octave) & (kPerOctave - 1));
    return std::min(bucket, kBuckets - 1);
  }
  // Where the next bucket begins.
  static Duration upper_end(size_t bucket) {
    const uint64_t next = bucket + 1;
    if (next <= kPerOctave) return std::chrono::microseconds(next);
    const uint64_t octave = next / kPerOctave - 1;
    return std::chrono::microseconds((kPerOctave + next % kPerOctave) << octave);
  }

  uint64_t count_ = 0;
  Duration total_{};
  Duration least_{};
  Duration most_{};
  std::array<uint32_t, kBuckets> buckets_{};
};

}  // namespace elastripe::jobs
