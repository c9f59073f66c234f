// System calls per request: what a server, and what is behind it, do while requests are made.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/bench/report.h"
#include "tools/bench/testbed.h"

namespace elastripe::bench {

struct RequestCalls {
  uint64_t requests = 0;
  std::map<std::string, uint64_t> front;  // by name
  std::map<std::string, uint64_t> back;
};

// Counts them while `make_requests` runs, which says how many it has made.
cli::Result<RequestCalls> count_calls(const Target& target,
                                      const std::function<cli::Result<uint64_t>()>& make_requests);

// Cells of a table: the sum and the most frequent calls, of the front and of the back.
inline const std::vector<std::string> kCallsHeader = {"calls", "", "nodes' calls", ""};
std::vector<std::string> call_cells(const RequestCalls& calls);
// {"operations": ..., "front_calls": {...}, "back_calls", "front_calls_per_operation", "back_..."}
Json json_of(const RequestCalls& calls);

}  // namespace elastripe::bench
