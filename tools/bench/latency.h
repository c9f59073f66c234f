// How long one PUT and one GET take, one at a time from one thread: every case a few times a round,
// the cases of a round in random order, so that noise of the machine falls on all alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/servers.h"

namespace elastripe::bench {

struct LatencyCase {
  std::string scheme;  // "memcached" for plain memcached, without a proxy
  std::string path;    // inline, striped or direct
  std::string prefix;  // of its keys
  uint16_t port = 0;
  size_t object_bytes = 0;

  // Medians of each round, in microseconds.
  std::vector<double> put_us;
  std::vector<double> get_us;
};

struct LatencySettings {
  std::vector<std::string> schemes;
  std::vector<size_t> sizes;
  int max_rounds = 15;
  int min_rounds = 3;
  std::chrono::seconds budget{60};  // no further round starts after it
};

// Every GET's bytes are compared with what was put; a difference is an error.
cli::Result<std::vector<LatencyCase>> measure_latency(const Servers& servers,
                                                      const LatencySettings& settings);

}  // namespace elastripe::bench
