// What the configuration says of automatic repair, with its defaults.
#pragma once

#include <chrono>
#include <cstdint>

#include "proxy/async/clock.h"
#include "proxy/base/setting_rows.h"

namespace elastripe::jobs {

struct RepairSettings {
  bool is_automatic = true;
  Duration after = std::chrono::seconds(60);
  uint64_t rate = 0;  // bytes a second to and from the nodes; 0: no limit
  uint32_t parallel = 4;

  friend bool operator==(const RepairSettings&, const RepairSettings&) = default;
};

void each_setting(RepairSettings& s, auto& row) {
  using namespace setting;
  row("repair.automatic", s.is_automatic, TrueOrFalse{},
      "Whether shards that are gone are made again by themselves.");
  row("repair.after_ms", s.after, Range{0, kDayMs},
      "A node that is lost or away may come back for so long; then its shards are made again on "
      "others. On a node that is back without them they are made again at once.");
  row("repair.rate", s.rate, Sizes{0, 1024 * kGiB},
      "Bytes a second that repair reads from and sends to nodes, on average; 0: as fast as it "
      "can.");
  row("repair.parallel", s.parallel, Range{1, 256}, "Objects that are repaired at a time.");
}

}  // namespace elastripe::jobs
