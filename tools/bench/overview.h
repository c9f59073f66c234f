// elastripe bench alone: every size and scheme, inline and striped, one request at a time, beside
// plain memcached; and the memory that objects take.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/report.h"

namespace elastripe::bench {

struct OverviewSettings {
  std::vector<std::string> schemes{"rep:2", "rs:4,1", "ers:4,1,5", "ers:4,2,5"};
  std::vector<std::string> sizes{"1KiB", "4KiB", "16KiB", "64KiB", "1MiB", "4MiB"};
  int seconds = 60;  // of all sizes together
  int nodes = 9;
  int port = 15311;
};

cli::Result<Report> measure_overview(const OverviewSettings& settings);

}  // namespace elastripe::bench
