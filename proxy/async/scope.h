// Scope: the owner of detached flows. It bounds how many are alive, is joined at shutdown, and must
// be empty when it is destroyed.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>
#include <vector>

#include "proxy/async/task.h"
#include "proxy/base/memory_pool.h"

namespace elastripe {

class Scope {
 public:
  explicit Scope(size_t max_live = SIZE_MAX) : max_live_(max_live) {}
  ~Scope() { ELASTRIPE_CHECK(live_ == 0, "a scope was destroyed with live flows"); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // Runs `flow` until its first wait; false, and the flow never starts, when the scope is full or
  // closed.
  [[nodiscard]] bool try_spawn(Task<void> flow) {
    if (closed_ || live_ >= max_live_) return false;
    ++live_;
    run(std::move(flow));
    return true;
  }
  void spawn(Task<void> flow) {
    ELASTRIPE_CHECK(try_spawn(std::move(flow)), "the scope is closed or full");
  }

  // No new flows from now on. Whoever closes also completes the flows' waits as cancelled.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }
  size_t live() const { return live_; }

  // Closes, and waits until the last flow has ended.
  Task<void> join() {
    close();
    while (live_ > 0) co_await Empty{*this};
  }

 private:
  // Fire-and-forget frame that destroys itself when the flow is done.
  struct Detached {
    struct promise_type : PooledFrame {
      Detached get_return_object() const noexcept { return {}; }
      std::suspend_never initial_suspend() const noexcept { return {}; }
      std::suspend_never final_suspend() const noexcept { return {}; }
      void return_void() const noexcept {}
      [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
  };
  struct Empty {
    Scope& scope;
    bool await_ready() const noexcept { return scope.live_ == 0; }
    void await_suspend(std::coroutine_handle<> waiter) const { scope.joiners_.push_back(waiter); }
    void await_resume() const noexcept {}
  };

  Detached run(Task<void> flow) {
    {
      // The frame goes before the joiner does: its parameters may refer to what the joiner frees.
      Task<void> own = std::move(flow);
      co_await std::move(own);
    }
    finished();
  }
  void finished() {
    if (--live_ > 0) return;
    for (auto waiter : std::exchange(joiners_, {})) waiter.resume();
  }

  const size_t max_live_;
  size_t live_ = 0;
  bool closed_ = false;
  std::vector<std::coroutine_handle<>, Pooled<std::coroutine_handle<>>> joiners_;
};

}  // namespace elastripe
