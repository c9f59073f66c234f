// when_all, when_both: run tasks at the same time and return their results once all have ended.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "proxy/async/task.h"

namespace elastripe {

namespace when_all_internal {

// Counts the tasks and the waiter itself, so that tasks that end while being started do not resume
// it.
struct Join {
  size_t pending = 1;
  std::coroutine_handle<> waiter;

  void arrive() {
    if (--pending == 0) waiter.resume();
  }
};

struct Runner {
  struct promise_type : PooledFrame {
    Runner get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
  };
};

template <class T>
Runner run(Task<T> task, std::optional<T>* out, Join* join) {
  {
    // The frame goes before the waiter does: its parameters may refer to what the waiter frees.
    Task<T> own = std::move(task);
    out->emplace(co_await std::move(own));
  }
  join->arrive();
}

template <class T>
struct Awaiter {
  std::vector<Task<T>>& tasks;
  std::vector<std::optional<T>>& results;
  Join& join;

  bool await_ready() const noexcept { return tasks.empty(); }
  bool await_suspend(std::coroutine_handle<> waiter) const {
    join.waiter = waiter;
    join.pending += tasks.size();
    for (size_t i = 0; i < tasks.size(); ++i) run(std::move(tasks[i]), &results[i], &join);
    return --join.pending > 0;
  }
  void await_resume() const noexcept {}
};

}  // namespace when_all_internal

template <class T>
Task<std::vector<T>> when_all(std::vector<Task<T>> tasks) {
  std::vector<std::optional<T>> results(tasks.size());
  when_all_internal::Join join;
  co_await when_all_internal::Awaiter<T>{tasks, results, join};
  std::vector<T> values;
  values.reserve(results.size());
  for (auto& result : results) values.push_back(std::move(*result));
  co_return values;
}

namespace when_all_internal {

template <class A, class B>
struct BothAwaiter {
  Task<A>& first;
  Task<B>& second;
  std::optional<A>& first_result;
  std::optional<B>& second_result;
  Join& join;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) const {
    join.waiter = waiter;
    join.pending += 2;
    run(std::move(first), &first_result, &join);
    run(std::move(second), &second_result, &join);
    return --join.pending > 0;
  }
  void await_resume() const noexcept {}
};

}  // namespace when_all_internal

template <class A, class B>
Task<std::pair<A, B>> when_both(Task<A> first, Task<B> second) {
  std::optional<A> first_result;
  std::optional<B> second_result;
  when_all_internal::Join join;
  co_await when_all_internal::BothAwaiter<A, B>{first, second, first_result, second_result, join};
  co_return std::pair<A, B>(std::move(*first_result), std::move(*second_result));
}

}  // namespace elastripe
