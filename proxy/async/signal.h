// Signal: wakes the one flow that waits for something to change.
#pragma once

#include <coroutine>
#include <utility>

#include "proxy/base/check.h"

namespace elastripe {

// Outlives the wait. One thread.
class Signal {
 public:
  // Resumes the waiter at once, inside of this; without one, the next wait ends at once.
  void set() {
    is_set_ = true;
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }

  // co_await waits for a set() since the last wait.
  auto wait() {
    struct [[nodiscard]] Wait {
      Signal& signal;
      bool await_ready() const noexcept { return signal.is_set_; }
      void await_suspend(std::coroutine_handle<> waiter) const noexcept {
        ELASTRIPE_CHECK(!signal.waiter_, "awaited twice");
        signal.waiter_ = waiter;
      }
      void await_resume() const noexcept { signal.is_set_ = false; }
    };
    return Wait{*this};
  }

 private:
  bool is_set_ = false;
  std::coroutine_handle<> waiter_;
};

}  // namespace elastripe
