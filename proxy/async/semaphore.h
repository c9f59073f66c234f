// Semaphore: a weighted budget with fair waiting, for staged bytes and numbers of flows.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "proxy/async/task.h"

namespace elastripe {

// Waiters are served in order, so a large one is not starved by small ones. A weight above the
// whole budget is taken as the whole budget.
class Semaphore {
 public:
  explicit Semaphore(uint64_t budget) : budget_(budget), free_(budget) {}
  ~Semaphore() { ELASTRIPE_CHECK(waiters_.empty(), "a semaphore was destroyed with waiters"); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // Holds its share until destroyed or released.
  class Permit {
   public:
    Permit() = default;
    Permit(Semaphore* owner, uint64_t weight) : owner_(owner), weight_(weight) {}
    Permit(Permit&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), weight_(other.weight_) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(weight_, other.weight_);
      return *this;
    }
    ~Permit() { release(); }
    void release() {
      if (owner_ != nullptr) std::exchange(owner_, nullptr)->put_back(weight_);
    }

   private:
    Semaphore* owner_ = nullptr;
    uint64_t weight_ = 0;
  };

  Task<Permit> acquire(uint64_t weight) {
    weight = weight < budget_ ? weight : budget_;
    if (!waiters_.empty() || free_ < weight) {
      co_await Wait{*this, weight};
    } else {
      free_ -= weight;
    }
    co_return Permit(this, weight);
  }

  // Nothing if it would have to wait.
  std::optional<Permit> try_acquire(uint64_t weight) {
    weight = weight < budget_ ? weight : budget_;
    if (!waiters_.empty() || free_ < weight) return std::nullopt;
    free_ -= weight;
    return Permit(this, weight);
  }

  uint64_t free() const { return free_; }
  uint64_t taken() const { return budget_ - free_; }
  size_t waiting() const { return waiters_.size(); }

 private:
  struct Waiter {
    uint64_t weight;
    std::coroutine_handle<> handle;
  };
  struct Wait {
    Semaphore& semaphore;
    uint64_t weight;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) { semaphore.waiters_.push_back({weight, h}); }
    void await_resume() const noexcept {}
  };

  // A waiter that is resumed here may put back at once: the outermost call serves all of them, so
  // that a queue of any length uses no stack.
  void put_back(uint64_t weight) {
    free_ += weight;
    if (serving_) return;
    serving_ = true;
    while (!waiters_.empty() && waiters_.front().weight <= free_) {
      const Waiter next = waiters_.front();
      waiters_.pop_front();
      free_ -= next.weight;
      next.handle.resume();
    }
    serving_ = false;
  }

  const uint64_t budget_;
  uint64_t free_;
  bool serving_ = false;
  std::deque<Waiter> waiters_;
};

}  // namespace elastripe
