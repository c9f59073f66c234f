// Throughput of many connections: one thread keeps one request in flight on each, through epoll, so
// that the driver costs little beside the servers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tools/cli/result.h"

namespace elastripe::bench {

struct LoadSettings {
  uint16_t port = 0;
  std::string prefix;  // of the keys
  int connections = 32;
  size_t object_bytes = 1024;
  bool put = false;  // else GET; the objects are stored first
  std::chrono::milliseconds duration{1000};
};

// Requests answered per second. Any other answer than STORED or the whole object is an error.
cli::Result<double> measure_load(const LoadSettings& settings);

}  // namespace elastripe::bench
