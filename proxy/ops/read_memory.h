// The memory of values that are read: taken before it is allocated, and held until the last buffer
// of the value is gone, which is when the client's socket has taken it.
#pragma once

#include <algorithm>
#include <memory>

#include "proxy/async/clock.h"
#include "proxy/async/semaphore.h"
#include "proxy/base/error.h"

namespace elastripe {

// Bytes are reserved as long as a copy lives. Loop thread only.
using MemoryHold = std::shared_ptr<const void>;

// What the reads of one thread may hold. Values leave in the order in which a client asked, so one
// that waits for memory must not wait for a value behind it. Hence two parts: a read takes from
// `early` what is free, at any time, or waits for `in_turn` when all reads before it have got their
// values. Whoever waits then waits for values that can leave.
struct ReadBudget {
  // `in_turn` has room for the largest object, whatever `bytes` says.
  ReadBudget(uint64_t bytes, uint64_t max_object_bytes)
      : early(bytes / 4), in_turn(std::max(bytes - bytes / 4, max_object_bytes)) {}

  Semaphore early;
  Semaphore in_turn;
};

inline MemoryHold held(Semaphore::Permit permit) {
  return std::make_shared<const Semaphore::Permit>(std::move(permit));
}

// Null: there is not so much now.
inline MemoryHold take_early(ReadBudget& budget, uint64_t bytes) {
  if (bytes > budget.early.free()) return nullptr;
  auto permit = budget.early.try_acquire(bytes);
  return permit ? held(std::move(*permit)) : nullptr;
}
inline MemoryHold take_at_once(Semaphore& from, uint64_t bytes) {
  auto permit = from.try_acquire(bytes);
  return permit ? held(std::move(*permit)) : nullptr;
}
// Goes on in a later turn of the loop: whoever lets a buffer go is not the place to run a flow.
inline Task<Result<MemoryHold>> wait_for_memory(Semaphore& from, Clock& clock, uint64_t bytes) {
  auto permit = co_await from.acquire(bytes);
  if (!co_await clock.sleep_until(clock.now())) {
    co_return fail(ErrorCode::kCancelled, "shutting down");
  }
  co_return held(std::move(permit));
}

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

// For flows that read one object and let it go.
class SingleRead : public ReadMemory {
 public:
  SingleRead(ReadBudget& budget, Clock& clock) : budget_(budget), clock_(clock) {}

  MemoryHold try_reserve(uint64_t bytes) override {
    if (auto hold = take_early(budget_, bytes)) return hold;
    return take_at_once(budget_.in_turn, bytes);
  }
  Task<Result<MemoryHold>> reserve(uint64_t bytes) override {
    return wait_for_memory(budget_.in_turn, clock_, bytes);
  }

 private:
  ReadBudget& budget_;
  Clock& clock_;
};

// For values that are read to be changed and written: no client keeps these waiting.
class StagedRead : public ReadMemory {
 public:
  StagedRead(Semaphore& staged_bytes, Clock& clock, uint64_t max_bytes)
      : staged_bytes_(staged_bytes), clock_(clock), max_bytes_(max_bytes) {}

  MemoryHold try_reserve(uint64_t bytes) override {
    return bytes > max_bytes_ ? nullptr : take_at_once(staged_bytes_, bytes);
  }
  Task<Result<MemoryHold>> reserve(uint64_t bytes) override {
    if (bytes > max_bytes_) co_return fail(ErrorCode::kTooLarge, "object too large for cache");
    co_return co_await wait_for_memory(staged_bytes_, clock_, bytes);
  }

 private:
  Semaphore& staged_bytes_;
  Clock& clock_;
  const uint64_t max_bytes_;
};

}  // namespace elastripe
