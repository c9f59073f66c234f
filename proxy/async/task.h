// Task<T>: a lazy coroutine. It starts when awaited, resumes its awaiter when done (by symmetric
// transfer, so chains of any length use no stack), and is awaited exactly once.
//
// Rules of use (docs/decisions.md, "Coroutines"): parameters by value, or of what the awaiting flow
// owns; no capturing lambda coroutines; never destroy a suspended frame: complete its wait as
// cancelled and let it unwind. Threads: a task lives on the thread that started it. No exception
// leaves a task.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "proxy/async/frame_pool.h"
#include "proxy/base/check.h"

namespace elastripe {

template <class T>
class Task;

namespace task_internal {

struct FinalAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) const noexcept {
    return done.promise().awaiter;
  }
  void await_resume() const noexcept {}
};

struct PromiseBase : PooledFrame {
  std::coroutine_handle<> awaiter;

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;

  Task<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace task_internal

template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = task_internal::Promise<T>;

  Task(Task&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), started_(other.started_) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(started_, other.started_);
    return *this;
  }
  ~Task() {
    if (!handle_) return;
    ELASTRIPE_CHECK(!started_ || handle_.done(), "a suspended task was destroyed");
    handle_.destroy();
  }

  // Awaiting runs the task; the result is moved out.
  auto operator co_await() && noexcept {
    struct Awaiter {
      Task& task;
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) const noexcept {
        task.started_ = true;
        task.handle_.promise().awaiter = awaiter;
        return task.handle_;
      }
      T await_resume() const { return task.handle_.promise().take(); }
    };
    return Awaiter{*this};
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
  bool started_ = false;
};

namespace task_internal {
template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace task_internal

}  // namespace elastripe
