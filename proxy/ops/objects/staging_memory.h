// Where segments on their way into shards take their memory from.
#pragma once

#include <optional>

#include "proxy/async/semaphore.h"
#include "proxy/async/task.h"
#include "proxy/ops/read_memory.h"

namespace elastripe::objects {

class StagingMemory {
 public:
  // None: the caller has reserved it.
  StagingMemory() = default;
  // `own`: a client's, for small values; null: it has none. Both outlive what was taken.
  explicit StagingMemory(Semaphore& shared, Semaphore* own = nullptr)
      : shared_(&shared), own_(own) {}

  bool is_reserved() const { return shared_ == nullptr; }

  // Not of a reserved one, here and below. Nothing: not without waiting.
  std::optional<Semaphore::Permit> try_acquire(uint64_t bytes) const {
    if (has_own(bytes)) {
      if (auto permit = own_->try_acquire(bytes)) return permit;
    }
    return shared_->try_acquire(bytes);
  }
  Task<Semaphore::Permit> acquire(uint64_t bytes) const {
    if (auto permit = try_acquire(bytes)) co_return std::move(*permit);
    co_return co_await (has_own(bytes) ? own_ : shared_)->acquire(bytes);
  }

 private:
  bool has_own(uint64_t bytes) const { return own_ != nullptr && bytes <= kSmallStagedBytes; }

  Semaphore* shared_ = nullptr;
  Semaphore* own_ = nullptr;
};

}  // namespace elastripe::objects
