#include <catch2/catch.hpp>
#include <memory>

#include "proxy/async/scope.h"
#include "proxy/async/when_all.h"
#include "tests/unit/async/manual.h"

namespace elastripe {
namespace {

Task<int> immediate(int value) { co_return value; }
Task<int> later(Turnstile* turnstile, int value) {
  co_await turnstile->pass();
  co_return value;
}
Task<void> gather(std::vector<Task<int>> tasks, std::vector<int>* out, bool* done) {
  *out = co_await when_all(std::move(tasks));
  *done = true;
}
// Its parameter outlives its result unless the runner drops the frame first.
Task<int> holding(std::shared_ptr<int> held) { co_return *held; }
Task<void> gather_holding(std::shared_ptr<int> held, long* uses_after) {
  std::vector<Task<int>> tasks;
  tasks.push_back(holding(held));
  co_await when_all(std::move(tasks));
  *uses_after = held.use_count();
}

struct Gathered {
  std::vector<int> values;
  bool done = false;
};

TEST_CASE("when_all of nothing ends at once") {
  Gathered got;
  Scope scope;
  scope.spawn(gather({}, &got.values, &got.done));
  REQUIRE(got.done);
  REQUIRE(got.values.empty());
}

TEST_CASE("when_all of tasks that end at once returns all results in order") {
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 1000; ++i) tasks.push_back(immediate(i));
  Gathered got;
  Scope scope;
  scope.spawn(gather(std::move(tasks), &got.values, &got.done));
  REQUIRE(got.done);
  REQUIRE(got.values.size() == 1000);
  for (int i = 0; i < 1000; ++i) REQUIRE(got.values[static_cast<size_t>(i)] == i);
}

TEST_CASE("when_all waits for the last task and keeps the order of the request") {
  Turnstile first, second;
  std::vector<Task<int>> tasks;
  tasks.push_back(later(&first, 1));
  tasks.push_back(immediate(2));
  tasks.push_back(later(&second, 3));
  Gathered got;
  Scope scope;
  scope.spawn(gather(std::move(tasks), &got.values, &got.done));
  second.let_through();
  REQUIRE_FALSE(got.done);
  first.let_through();
  REQUIRE(got.done);
  REQUIRE(got.values == std::vector<int>{1, 2, 3});
}

TEST_CASE("when_all drops the frames of its tasks before its waiter goes on") {
  long uses = 0;
  Scope scope;
  scope.spawn(gather_holding(std::make_shared<int>(1), &uses));
  REQUIRE(uses == 1);
}

}  // namespace
}  // namespace elastripe
