// Many objects at once: how fast transitions go and what limits them, and what a client beside them
// feels.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/transition_cluster.h"

namespace elastripe::bench {

struct BulkSettings {
  Parameters parameters{4, 1, 5};
  size_t object_bytes = 1 << 20;
  int objects = 0;  // of all layouts together
  uint32_t parallel = 4;
  int port = 15311;
};

// As many objects, up to `most`, as fit in the memory that is free now, with both generations of
// some parities.
int objects_that_fit(const BulkSettings& settings, int most);

// One layout's objects, all of them, once one way.
struct BulkPass {
  std::string layout;
  std::string execution;
  Direction direction = Direction::kForward;
  uint64_t objects = 0;
  uint64_t object_bytes = 0;  // of all
  double seconds = 0;
  double object_p50 = 0;  // seconds of one object among the others
  double object_p99 = 0;
  uint64_t block_bytes = 0;  // as planned, and as reported
  WireBytes wire;
  // Seconds of processor time: the proxy, its busiest thread, all nodes; and what nobody used.
  double proxy_seconds = 0;
  double proxy_thread_seconds = 0;
  double nodes_seconds = 0;
  double idle_seconds = 0;

  double objects_per_second() const { return static_cast<double>(objects) / seconds; }
  // In words: what there was no more of.
  std::string limit() const;
};

// Layouts and executions take turns.
cli::Result<std::vector<BulkPass>> measure_bulk(const BulkSettings& settings,
                                                const std::atomic<bool>& interrupted);

struct BesideSettings {
  Parameters parameters{4, 1, 5};
  int objects = 300;  // of 1 MiB: they transition while the client reads others
  int rounds = 5;
  int port = 15311;
};

// What one client, one GET after the other, sees while something goes on.
struct BesideCase {
  size_t read_bytes = 0;
  std::string what;  // goes on
  bool transitions = false;
  uint32_t parallel = 0;
  uint64_t rate = 0;  // bytes a second, of the transition; 0: no limit

  std::vector<double> us;  // of each GET
  double seconds = 0;
  uint64_t transitioned = 0;  // objects
};

// Cases take turns, round after round.
cli::Result<std::vector<BesideCase>> measure_beside(const BesideSettings& settings,
                                                    const std::atomic<bool>& interrupted);

}  // namespace elastripe::bench
