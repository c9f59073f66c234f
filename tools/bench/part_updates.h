// Load of updates of parts of objects, over many connections: `ms` with an offset at a proxy,
// SETRANGE at Redis. Every reply is checked, every latency recorded, and afterwards every byte.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tools/bench/load.h"
#include "tools/bench/testbed.h"
#include "tools/bench/ycsb_workload.h"

namespace elastripe::bench {

// Objects of one server that consist of blocks of one size; a block is what an update writes.
struct BlockObjects {
  Target target;
  std::string prefix = {};  // of their keys
  uint64_t objects = 1;
  uint64_t blocks = 1;  // of each
  size_t block_bytes = 0;
  bool waits = false;  // at Redis: each update for the replica

  std::string key(uint64_t object) const { return fmt::format("{}{}", prefix, object); }
  uint64_t all_blocks() const { return objects * blocks; }
};

// Which block of all is written next; used by one thread.
using BlockChoice = std::function<uint64_t(Random& random)>;
// "uniform"; "zipf": scrambled zipfian; "hot": nine of ten in a hundredth of them, in a row. Others
// are errors.
cli::Result<BlockChoice> block_choice(const std::string& pattern, uint64_t blocks);

// Stores them anew.
cli::Result<> store_objects(const BlockObjects& objects);
// Whether every block is some whole update of it.
cli::Result<> check_objects(const BlockObjects& objects);

struct PartLoad {
  int connections = 8;
  int depth = 1;  // requests in flight on each
  std::chrono::milliseconds duration{1000};
  uint64_t seed = 1;  // of the choices
};
struct PartLoadResult {
  uint64_t updates = 0;
  uint64_t bytes = 0;  // that they wrote
  double seconds = 0;
  Latencies latencies;
};
// The first failure ends it: a connection that breaks or waits for 60 s, a reply that is no
// success.
cli::Result<PartLoadResult> run_updates(const BlockObjects& objects, const BlockChoice& choice,
                                        const PartLoad& load);

}  // namespace elastripe::bench
