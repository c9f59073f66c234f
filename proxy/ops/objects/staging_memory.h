// Where segments on their way into shards take their memory from.
#pragma once

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

  // Not of a reserved one.
  Task<Semaphore::Permit> acquire(uint64_t bytes) const {
    if (own_ == nullptr || bytes > kSmallStagedBytes) co_return co_await shared_->acquire(bytes);
    if (auto permit = own_->try_acquire(bytes)) co_return std::move(*permit);
    if (auto permit = shared_->try_acquire(bytes)) co_return std::move(*permit);
    co_return co_await own_->acquire(bytes);
  }

 private:
  Semaphore* shared_ = nullptr;
  Semaphore* own_ = nullptr;
};

}  // namespace elastripe::objects
