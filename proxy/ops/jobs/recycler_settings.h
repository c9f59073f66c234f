// What the recycler is told by the configuration, with its defaults.
#pragma once

#include <chrono>

#include "proxy/async/clock.h"
#include "proxy/base/setting_rows.h"

namespace elastripe::jobs {

struct RecyclerSettings {
  Duration fold_after = std::chrono::seconds(1);

  friend bool operator==(const RecyclerSettings&, const RecyclerSettings&) = default;
};

void each_setting(RecyclerSettings& s, auto& row) {
  using namespace setting;
  row("timing.fold_after_ms", s.fold_after, Range{10, kDayMs},
      "Updates that have been in an update log for so long are folded into the shards. The longer, "
      "the more of them are overwritten there first. One that finds no room in the log is written "
      "into the shards, with all that is there.");
}

}  // namespace elastripe::jobs
