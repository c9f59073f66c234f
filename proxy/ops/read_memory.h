// The memory of values that are read: taken before it is allocated, and held until the last buffer
// of the value is gone, which is when the client's socket has taken it.
#pragma once

#include <memory>

#include "proxy/async/clock.h"
#include "proxy/base/error.h"
#include "proxy/ops/memory_budgets.h"

namespace elastripe {

// Bytes are reserved as long as a copy lives. Loop thread only.
using MemoryHold = std::shared_ptr<const void>;

// Where one read takes its memory from, once it knows the value's size.
class ReadMemory {
 public:
  virtual ~ReadMemory() = default;
  // Without waiting; null: not now.
  virtual MemoryHold try_reserve(uint64_t bytes) = 0;
  // The caller holds nothing that it has reserved before.
  // Errors: kTooLarge: refused. kCancelled: nobody waits for the value any more.
  virtual Task<Result<MemoryHold>> reserve(uint64_t bytes) = 0;
};

// For values that are read to be changed and written, in parts of at most `max_bytes`: no client
// keeps these waiting.
class StagedRead : public ReadMemory {
 public:
  StagedRead(uint64_t budget, Clock& clock, uint64_t max_bytes)
      : budget_(std::make_shared<Semaphore>(budget)), clock_(clock), max_bytes_(max_bytes) {}

  MemoryHold try_reserve(uint64_t bytes) override {
    if (bytes > max_bytes_) return nullptr;
    auto permit = budget_->try_acquire(bytes);
    return permit ? held(std::move(*permit)) : nullptr;
  }
  Task<Result<MemoryHold>> reserve(uint64_t bytes) override {
    if (bytes > max_bytes_) co_return fail(ErrorCode::kTooLarge, "object too large for cache");
    auto permit = co_await budget_->acquire(bytes);
    if (!co_await clock_.next_turn()) {
      co_return fail(ErrorCode::kCancelled, "shutting down");
    }
    co_return held(std::move(permit));
  }

 private:
  // The last hold may outlive whoever reads.
  struct Hold {
    std::shared_ptr<Semaphore> budget;
    Semaphore::Permit permit;
  };
  MemoryHold held(Semaphore::Permit permit) {
    return std::make_shared<const Hold>(budget_, std::move(permit));
  }

  const std::shared_ptr<Semaphore> budget_;
  Clock& clock_;
  const uint64_t max_bytes_;
};

}  // namespace elastripe
