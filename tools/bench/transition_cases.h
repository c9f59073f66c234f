// How long the transition of one object takes, and what goes over the network for it: every case
// once a repetition, the cases of a repetition in random order, so that noise of the machine falls
// on all layouts and executions alike.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/own_network.h"
#include "tools/bench/transition_cluster.h"

namespace elastripe::bench {

// One direction of a case.
struct MeasuredTransition {
  // From the request's start to the commit, as the proxy tells. Microseconds, one a repetition.
  std::vector<double> us;
  Blocks blocks;       // of one transition: as planned, and as every one of them reported
  uint64_t bytes = 0;  // of these blocks
  WireBytes wire;      // of one transition, as connections and nodes count it; heartbeats are in it
};

struct TransitionCase {
  Parameters parameters;
  std::string layout;
  std::string execution;
  size_t object_bytes = 0;  // one segment at most
  bool order_selection = true;
  uint64_t bits_per_second = 0;  // of the network; 0: no limit

  MeasuredTransition forward;
  MeasuredTransition backward;

  const MeasuredTransition& of(Direction d) const {
    return d == Direction::kForward ? forward : backward;
  }
  MeasuredTransition& of(Direction d) { return d == Direction::kForward ? forward : backward; }
};

// The cases of every layout and execution.
std::vector<TransitionCase> cases_of(const Parameters& parameters, std::vector<size_t> sizes,
                                     std::vector<uint64_t> rates = {0});

// All cases have the cluster's parameters. An error if blocks are not as planned.
cli::Result<> measure_cases(const TransitionCluster& cluster, std::vector<TransitionCase>& cases,
                            int repetitions, OwnNetwork* network,
                            const std::atomic<bool>& interrupted);

}  // namespace elastripe::bench
