// Elsewhere: a flow of one thread waits for what another thread does for it.
#pragma once

#include <coroutine>
#include <functional>
#include <optional>
#include <utility>

#include "proxy/io/loop.h"

namespace elastripe {

// co_await gives the result, on the thread of `loop`, whose loop outlives the wait.
template <class Result>
class Elsewhere {
 public:
  using Done = std::function<void(Result)>;
  // `begin` starts the work and sees to it that Done is called once, on any thread.
  Elsewhere(Loop& loop, std::function<void(Done)> begin) : loop_(loop), begin_(std::move(begin)) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    begin_([this, waiter](Result result) {
      result_.emplace(std::move(result));
      loop_.post([waiter] { waiter.resume(); });
    });
  }
  Result await_resume() { return *std::move(result_); }

 private:
  Loop& loop_;
  std::function<void(Done)> begin_;
  std::optional<Result> result_;
};

}  // namespace elastripe
