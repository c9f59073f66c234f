// What heartbeats, maps and sync cost as a cluster gets large, on virtual time: the real flows and
// nodes, without faults but those that are asked for here.
#pragma once

namespace elastripe::sim {

struct ScaleOptions {
  int proxies = 100;
  int nodes = 1000;
  unsigned partitions = 4096;
  int records = 2000;  // of 1 KiB, stored through all proxies
};

// Prints tables on standard output. 0, or 1 if a phase does not come to its end.
int simulate_scale(const ScaleOptions& options);

}  // namespace elastripe::sim
