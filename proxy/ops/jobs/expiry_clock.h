// What time it is for those who destroy what has expired. A wall clock that is set forward by
// mistake makes live objects expired; clients then see misses until it is set right, but what is
// destroyed meanwhile is gone for good.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "proxy/async/clock.h"

namespace elastripe::jobs {

class ExpiryClock {
 public:
  // The wall clock is taken for set when it went by more or less than the monotonic one since the
  // last look. It is believed again when they agree, or after so long.
  static constexpr Duration kMaxStep = std::chrono::seconds(2);
  static constexpr Duration kDistrust = std::chrono::minutes(10);
  // Clocks of proxies may differ by this: what expired only since then may be alive for another,
  // and is not to be destroyed yet.
  static constexpr uint32_t kMargin_s = 2;

  // What the wall clocks of other proxies show now, in unix milliseconds; nothing: that is not
  // known yet.
  using Others = std::function<std::optional<std::vector<int64_t>>()>;

  // Believes the wall clock as it is.
  explicit ExpiryClock(const Clock& clock) : clock_(clock), believed_(read()) {}

  // From now on it compares with them: a clock that was wrong when the process began has never
  // been set.
  void consult(Others others) { others_ = std::move(others); }

  // The unix time in seconds: this proxy's, or, where that is more than kMargin_s ahead, that of
  // the one in the middle of all. So with two proxies it is never far ahead of either, and with
  // three one may be wrong. Nothing while the wall clock is not believed, or those of others are
  // not known.
  std::optional<uint32_t> look();

 private:
  struct Times {
    TimePoint monotonic;
    int64_t unix_ms = 0;
  };

  Times read() const;
  int64_t agree(int64_t own_ms, std::vector<int64_t> clocks);

  const Clock& clock_;
  Times believed_;  // the last look at which they agreed
  std::optional<TimePoint> disagree_since_;
  Others others_;
  bool has_warned_ = false;  // that it is ahead
};

}  // namespace elastripe::jobs
