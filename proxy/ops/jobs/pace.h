// Pace: a job's turns at a rate of bytes a second, on average.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proxy/async/clock.h"

namespace elastripe::jobs {

class Pace {
 public:
  explicit Pace(uint64_t rate) : rate_(rate) {}  // bytes a second; 0: no limit

  // When the next turn begins, which moves so many bytes: when the turns before it would have ended
  // at the full rate, and not before `now`.
  TimePoint take_turn(TimePoint now, uint64_t bytes) {
    const TimePoint turn = std::max(next_, now);
    if (rate_ > 0) {
      next_ = turn + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(
                         static_cast<double>(bytes) / static_cast<double>(rate_)));
    }
    return turn;
  }

 private:
  const uint64_t rate_;
  TimePoint next_;
};

}  // namespace elastripe::jobs
