// MemoryBudgets: what the values in flows of one thread may hold. docs/memory.md says who may wait
// for what, and what it may hold meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proxy/async/semaphore.h"

namespace elastripe {

// What the reads of one thread may hold. Values leave in the order in which a client asked, so one
// that waits for memory must not wait for a value behind it. Hence two parts: a read takes from
// `early` what is free, at any time, or waits for `in_turn` when all reads before it have got their
// values. Whoever waits then waits for values that can leave.
struct ReadBudget {
  // `in_turn` has room for the largest part of a value, whatever `bytes` says.
  ReadBudget(uint64_t bytes, uint64_t max_part_bytes)
      : early(early_of(bytes)), in_turn(in_turn_of(bytes, max_part_bytes)) {}
  void resize(uint64_t bytes, uint64_t max_part_bytes) {
    early.resize(early_of(bytes));
    in_turn.resize(in_turn_of(bytes, max_part_bytes));
  }

  Semaphore early;
  Semaphore in_turn;

 private:
  static uint64_t early_of(uint64_t bytes) { return bytes / 4; }
  static uint64_t in_turn_of(uint64_t bytes, uint64_t max_part_bytes) {
    return std::max(bytes - bytes / 4, max_part_bytes);
  }
};

// A small value: a client has memory of its own for these, so that they never wait for the large
// ones of others. On its way into shards one takes more: its parities.
inline constexpr uint64_t kSmallBytes = 64 << 10;
inline constexpr uint64_t kSmallStagedBytes = 2 * kSmallBytes;

// In bytes.
struct MemorySizes {
  uint64_t staged = 0;
  uint64_t rebuilt = 0;
  uint64_t decoded = 0;
  uint64_t read = 0;
  uint64_t max_part = 0;  // the largest part of a value that is read
};

// Loop thread only. Deadlock rule: before waiting for one of these, hold nothing whose release
// depends on somebody who waits for it. What is held may wait for nodes, or for a client's socket.
struct MemoryBudgets {
  explicit MemoryBudgets(const MemorySizes& sizes)
      : staged(sizes.staged),
        rebuilt(sizes.rebuilt),
        decoded(sizes.decoded),
        read(sizes.read, sizes.max_part) {}
  void resize(const MemorySizes& sizes) {
    staged.resize(sizes.staged);
    rebuilt.resize(sizes.rebuilt);
    decoded.resize(sizes.decoded);
    read.resize(sizes.read, sizes.max_part);
  }

  // Segments on their way into shards. Nobody holds the lock of a key while waiting for it.
  Semaphore staged;
  // Segments that are written a second time, and values made from others: their flows may hold
  // locks and staged memory. Whoever has some of it waits for nodes only.
  Semaphore rebuilt;
  // What a degraded read decodes with: parities, and of a range all of its segment. Whoever has
  // some of it waits for nodes only.
  Semaphore decoded;
  // Values on their way to clients.
  ReadBudget read;
};

}  // namespace elastripe
