// Time and chance as flows see them: real on a loop, virtual in the simulator.
#pragma once

#include <chrono>
#include <cstdint>

#include "proxy/async/task.h"

namespace elastripe {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;  // monotonic
  // A time of this turn of the loop, not after now(), without looking at a clock again. For
  // measurements, and for limits so long that one turn makes no difference; not for leases.
  virtual TimePoint turn_time() const { return now(); }
  virtual uint64_t unix_ms() const = 0;  // for expiry only
  // True when the time has come, false if the wait was cancelled (shutdown).
  virtual Task<bool> sleep_until(TimePoint when) = 0;

  // Between slices of work: after whatever else is ready now.
  Task<bool> next_turn() { return sleep_until(now()); }
  Task<bool> sleep_for(Duration duration) { return sleep_until(now() + duration); }
};

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t next() = 0;  // 64 uniform bits
};

}  // namespace elastripe
