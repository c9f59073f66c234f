// Waits that a test completes by hand.
#pragma once

#include <coroutine>
#include <deque>

#include "proxy/async/task.h"

namespace elastripe {

class Turnstile {
 public:
  // Suspends until let_through reaches this waiter.
  auto pass() {
    struct Wait {
      Turnstile& owner;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> handle) { owner.waiters_.push_back(handle); }
      void await_resume() const noexcept {}
    };
    return Wait{*this};
  }
  void let_through(size_t count = 1) {
    while (count-- > 0) {
      auto next = waiters_.front();
      waiters_.pop_front();
      next.resume();
    }
  }
  size_t waiting() const { return waiters_.size(); }

 private:
  std::deque<std::coroutine_handle<>> waiters_;
};

}  // namespace elastripe
