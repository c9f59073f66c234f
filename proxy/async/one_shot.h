// OneShot<T>: a value that one side sets once and one coroutine awaits, in either order.
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "proxy/base/check.h"

namespace elastripe {

// Setting resumes the waiter at once, inside set(). Must outlive the wait.
template <class T>
class OneShot {
 public:
  OneShot() = default;
  OneShot(const OneShot&) = delete;
  OneShot& operator=(const OneShot&) = delete;

  void set(T value) {
    ELASTRIPE_CHECK(!value_.has_value(), "set twice");
    value_.emplace(std::move(value));
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }
  bool is_set() const { return value_.has_value(); }

  bool await_ready() const noexcept { return value_.has_value(); }
  void await_suspend(std::coroutine_handle<> waiter) noexcept {
    ELASTRIPE_CHECK(!waiter_, "awaited twice");
    waiter_ = waiter;
  }
  T await_resume() { return std::move(*value_); }

 private:
  std::optional<T> value_;
  std::coroutine_handle<> waiter_;
};

}  // namespace elastripe
