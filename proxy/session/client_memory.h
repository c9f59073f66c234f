// ClientMemory: what the values of one client may hold. Values up to kSmallBytes have memory of
// their own, which no other client can take; larger ones share that of all (ReadBudget of the
// worker, MemoryBudgets::staged), up to a bound a client.
#pragma once

#include "proxy/async/semaphore.h"
#include "proxy/ops/memory_budgets.h"

namespace elastripe {

struct ClientMemory {
  explicit ClientMemory(uint64_t large_bytes) : large(large_bytes, 0) {}

  ReadBudget small{2 * kSmallBytes, kSmallBytes};  // on their way to the client
  ReadBudget large;                                // of everyone's
  Semaphore staged{kSmallStagedBytes};             // small values on their way to nodes
  size_t waiting = 0;                              // reads of its own, for everyone's
};

// Memory of one value. Buffers keep it, and they may outlive the client.
struct ValueMemory {
  std::shared_ptr<ClientMemory> client;
  uint64_t bytes;
  Semaphore::Permit own;
  Semaphore::Permit shared = {};  // of a large one

  void shrink(uint64_t to) {
    bytes = to;
    own.shrink(to);
    shared.shrink(to);
  }
};
using ValueMemoryPtr = std::shared_ptr<ValueMemory>;

}  // namespace elastripe
