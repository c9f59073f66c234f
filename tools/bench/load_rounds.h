// Loads of several targets that take turns, so that noise of the machine falls on all alike.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/bench/load.h"
#include "tools/bench/testbed.h"

namespace elastripe::bench {

// One load of one target, and what its rounds gave.
struct LoadCase {
  const Target* target = nullptr;
  int connections = 32;
  int depth = 1;
  int threads = 1;  // of the load itself
  SourceFactory sources;
  const ObjectBytes* objects = nullptr;
  std::optional<std::chrono::milliseconds> duration;  // of a round; nothing: until sources end

  LoadResult sum = {};                  // of all rounds
  std::vector<double> per_second = {};  // by round
  double front_cpu_seconds = 0;
  double back_cpu_seconds = 0;

  double front_cpu_us() const { return per_operation_us(front_cpu_seconds); }
  double back_cpu_us() const { return per_operation_us(back_cpu_seconds); }

 private:
  double per_operation_us(double seconds) const {
    return sum.operations == 0 ? 0 : 1e6 * seconds / static_cast<double>(sum.operations);
  }
};

LoadSettings load_settings(const LoadCase& c);

// One round of one case, added to it.
cli::Result<> measure_round(LoadCase& c);

// Every round makes all cases, one group after the other, the cases of a group in random order. A
// first round warms up and is not counted. Progress goes to stderr.
cli::Result<> measure_rounds(std::vector<std::vector<LoadCase>>& groups, int rounds);

}  // namespace elastripe::bench
