// System calls per request, as strace counts them: what a contestant asks of the kernel. Tracing
// slows processes down, so that they find more requests waiting at a time: a lower bound for what
// they do at full speed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/bench/report.h"
#include "tools/bench/testbed.h"

namespace elastripe::bench {

struct TracedCase {
  Json labels;
  Target target;
  std::function<cli::Result<uint64_t>()> make_requests;  // returns how many it made
};

// Makes the requests of one case after the other. The report gets a table of `columns` and of the
// calls, and "system_calls" in its JSON, whose rows have "operations", "front_calls" and
// "back_calls" by name, and "front_calls_per_operation" and "back_..."; or a note that says why
// there are none. An interrupt is an error.
cli::Result<> add_system_calls(Report& report, const std::string& what, std::string columns,
                               const std::vector<TracedCase>& cases);

}  // namespace elastripe::bench
