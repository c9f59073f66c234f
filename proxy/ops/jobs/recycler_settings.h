// What the recycler is told by the configuration, with its defaults.
#pragma once

#include <chrono>

#include "proxy/async/clock.h"
#include "proxy/base/setting_rows.h"

namespace elastripe::jobs {

struct RecyclerSettings {
  Duration fold_after = std::chrono::seconds(1);
  uint64_t retained_bytes = 0;

  friend bool operator==(const RecyclerSettings&, const RecyclerSettings&) = default;
};

void each_setting(RecyclerSettings& s, auto& row) {
  using namespace setting;
  row("timing.fold_after_ms", s.fold_after, Range{10, kDayMs},
      "Updates that have been in an update log for so long are folded into the shards. The longer, "
      "the more of them are overwritten there first. One that finds no room in the log is written "
      "into the shards, with all that is there.");
  row("limits.retained_log_bytes", s.retained_bytes, Sizes{0, 1024 * kGiB},
      "So many bytes of updates stay in the logs of each node however old they are, those that "
      "were "
      "written last. What is overwritten again and again is then folded seldom.");
}

}  // namespace elastripe::jobs
