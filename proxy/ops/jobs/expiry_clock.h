// What time it is for those who destroy what has expired. A wall clock that is set forward by
// mistake makes live objects expired; clients then see misses until it is set right, but what is
// destroyed meanwhile is gone for good.
#pragma once

#include <optional>

#include "proxy/async/clock.h"

namespace elastripe::jobs {

class ExpiryClock {
 public:
  // The wall clock is taken for set when it went by more or less than the monotonic one since the
  // last look. It is believed again when they agree, or after so long.
  static constexpr Duration kMaxStep = std::chrono::seconds(2);
  static constexpr Duration kDistrust = std::chrono::minutes(10);
  // Clocks of proxies may differ by this: what expired only since then may be alive for another.
  static constexpr uint32_t kMargin_s = 2;

  // Believes the wall clock as it is.
  explicit ExpiryClock(const Clock& clock) : clock_(clock), believed_(read()) {}

  // The unix time in seconds up to which everything that expired may be destroyed; nothing while
  // the wall clock is not believed.
  std::optional<uint32_t> look();

 private:
  struct Times {
    TimePoint monotonic;
    int64_t unix_ms = 0;
  };

  Times read() const;

  const Clock& clock_;
  Times believed_;  // the last look at which they agreed
  std::optional<TimePoint> disagree_since_;
};

}  // namespace elastripe::jobs
