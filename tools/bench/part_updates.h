// Load of updates of parts of objects, over many connections: `ms` with an offset at a proxy,
// SETRANGE at Redis; beside them, if wanted, reads of parts: `mg` of a range, GETRANGE. Every reply
// is checked, every latency recorded, and afterwards every byte: it has to be of an update that no
// later one has overwritten.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/block_ledger.h"
#include "tools/bench/load.h"
#include "tools/bench/testbed.h"
#include "tools/bench/ycsb_workload.h"

namespace elastripe::bench {

// Objects of one server that consist of blocks of one size; an update writes some in a row. Copies
// are of the same objects.
struct BlockObjects {
  Target target;
  std::string prefix = {};  // of their keys
  uint64_t objects = 1;
  uint64_t blocks = 1;  // of each
  size_t block_bytes = 0;
  bool waits = false;  // at Redis: each update for the replica
  // So many blocks lie in two shards, at most, where some may be of one update and some of another.
  uint64_t torn_blocks = 0;
  // Knows the updates since they were stored.
  std::shared_ptr<BlockLedger> ledger = std::make_shared<BlockLedger>();

  std::string key(uint64_t object) const { return fmt::format("{}{}", prefix, object); }
  uint64_t all_blocks() const { return objects * blocks; }
};

// Which blocks are written, or read, next; nothing: no more are. A copy of it is used by one
// thread.
using BlockChoice = std::function<std::optional<BlockRun>(Random& random)>;
// One block at a time. "uniform"; "zipf": scrambled zipfian; "hot": nine of ten in a hundredth
// of them, in a row. Others are errors.
cli::Result<BlockChoice> block_choice(const std::string& pattern, uint64_t blocks);

// Stores them, once.
cli::Result<> store_objects(const BlockObjects& objects);
// Whether every block is what its ledger says; how many are not of one update, up to torn_blocks.
cli::Result<uint64_t> check_objects(const BlockObjects& objects);

struct PartLoad {
  int connections = 8;
  int depth = 1;                             // requests in flight on each
  std::chrono::milliseconds duration{1000};  // unless there is nothing more to write before
  uint64_t seed = 1;                         // of the choices
  int update_percent = 100;                  // the other operations are reads
};
struct PartLoadResult {
  uint64_t updates = 0;
  uint64_t bytes = 0;  // that they wrote
  uint64_t reads = 0;
  double seconds = 0;
  Latencies latencies;  // of updates
  Latencies read_latencies;
};
// The first failure ends it: a connection that breaks or waits for 60 s, a reply that is no
// success, a block that was read and is not whole. So does an interrupt, as an error.
cli::Result<PartLoadResult> run_updates(const BlockObjects& objects, const BlockChoice& choice,
                                        const PartLoad& load);

}  // namespace elastripe::bench
