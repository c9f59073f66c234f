// What the configuration says of scrubs in the background, with its defaults.
#pragma once

#include <chrono>
#include <cstdint>

#include "proxy/async/clock.h"
#include "proxy/base/setting_rows.h"

namespace elastripe::jobs {

struct ScrubSettings {
  Duration every = std::chrono::hours(7 * 24);  // zero: never
  uint64_t rate = 64 << 20;                     // bytes of shards a second; 0: no limit
  bool repairs = true;

  friend bool operator==(const ScrubSettings&, const ScrubSettings&) = default;
};

void each_setting(ScrubSettings& s, auto& row) {
  using namespace setting;
  row("scrub.every_ms", s.every, Range{0, 366 * kDayMs},
      "All objects are scrubbed so long after the proxy started, and after the scrub before has "
      "ended; 0: never.");
  row("scrub.read_rate", s.rate, Sizes{0, 1024 * kGiB},
      "Bytes of shards a second that a scrub in the background has the nodes read, on average; 0: "
      "as fast as they can.");
  row("scrub.repair", s.repairs, TrueOrFalse{},
      "Whether it makes shards again that it finds bad or wrong.");
}

}  // namespace elastripe::jobs
