// Pace: a job's turns at a rate of bytes a second, on average.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proxy/async/clock.h"

namespace elastripe::jobs {

class Pace {
 public:
  explicit Pace(uint64_t rate) : rate_(rate) {}  // bytes a second; 0: no limit

  // When the next turn may begin: when those before it would have ended at the full rate.
  TimePoint next_turn() const { return next_; }
  // A turn that moves so many bytes.
  void take_turn(TimePoint now, uint64_t bytes) { next_ = std::max(next_, now) + time_of(bytes); }
  // Also of what is left of the turns before.
  void set_rate(TimePoint now, uint64_t rate) {
    const double seconds = std::chrono::duration<double>(std::max(next_ - now, Duration())).count();
    const double bytes_left = seconds * static_cast<double>(rate_);
    rate_ = rate;
    next_ = now + time_of(static_cast<uint64_t>(bytes_left));
  }

 private:
  Duration time_of(uint64_t bytes) const {
    if (rate_ == 0) return Duration::zero();
    return std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(rate_)));
  }

  uint64_t rate_;
  TimePoint next_;
};

}  // namespace elastripe::jobs
