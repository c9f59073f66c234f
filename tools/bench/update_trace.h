// Traces of real systems, whose writes are replayed as updates of objects. What a trace reads is
// left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/block_ledger.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

struct TraceLimits {
  uint64_t writes = 0;  // so many are taken, from the start; 0: all
  // The percentage of the requests of a key trace that are taken as writes: it does not say which
  // are.
  int synthetic_writes = 50;
};

struct UpdateTrace {
  std::string name = {};  // of its file, without the ending
  size_t block_bytes = 0;
  std::vector<BlockRun> writes = {};  // by the trace's own block numbers
  uint64_t left_out = 0;              // requests between them
  std::optional<int> synthetic_writes = {};

  uint64_t written_bytes() const;
  uint64_t touched_bytes() const;  // each block once
  // As it stands in tables: a synthetic share of writes is part of it.
  std::string label() const;
};

// A block trace: CSV with the columns op (28 or 88: read, 2a or 8a: write, as of SCSI), size (in
// bytes) and lbn (in sectors of 512 bytes), named in the first line. Blocks are sectors, and a part
// of one is written whole. The error of a bad line has its number.
cli::Result<UpdateTrace> parse_block_trace(std::string_view text, const TraceLimits& limits);
// A key trace: numbers of 32 bits, big-endian, one for each request. Blocks are keys, of 4 KiB.
cli::Result<UpdateTrace> parse_key_trace(std::string_view bytes, const TraceLimits& limits);
// One of them by the file's ending: ".csv" or ".trace". One without writes is an error.
cli::Result<UpdateTrace> read_trace(const std::string& file, const TraceLimits& limits);

// Where the run lies in so many objects of so many blocks each: modulo all of them, and cut where
// the object ends, or after `most_blocks`.
BlockRun run_in_objects(const BlockRun& run, uint64_t objects, uint64_t blocks,
                        uint64_t most_blocks);

}  // namespace elastripe::bench
