#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "proxy/async/scope.h"
#include "proxy/async/task.h"
#include "tests/unit/async/manual.h"

namespace elastripe {
namespace {

Task<int> immediate(int value) { co_return value; }
Task<std::unique_ptr<int>> boxed(int value) { co_return std::make_unique<int>(value); }
Task<int> deep(int depth) {
  if (depth == 0) co_return 0;
  co_return 1 + co_await deep(depth - 1);
}
Task<void> set_flag(bool* flag) {
  *flag = true;
  co_return;
}
Task<void> sum_many(int count, int64_t* out) {
  for (int i = 0; i < count; ++i) *out += co_await immediate(1);
}
Task<void> take_box(int* out) { *out = *co_await boxed(7); }
Task<void> go_deep(int depth, int* out) { *out = co_await deep(depth); }
Task<void> wait_then_set(Turnstile* turnstile, bool* flag) {
  co_await turnstile->pass();
  *flag = true;
}

TEST_CASE("a task does not start before it is awaited") {
  bool started = false;
  {
    Task<void> never = set_flag(&started);
  }
  REQUIRE_FALSE(started);
  Scope scope;
  scope.spawn(set_flag(&started));
  REQUIRE(started);
}

TEST_CASE("a million synchronous awaits use no stack") {
  int64_t sum = 0;
  Scope scope;
  scope.spawn(sum_many(1'000'000, &sum));
  REQUIRE(sum == 1'000'000);
}

TEST_CASE("a chain of a hundred thousand nested tasks uses no stack") {
  int depth = 0;
  Scope scope;
  scope.spawn(go_deep(100'000, &depth));
  REQUIRE(depth == 100'000);
}

TEST_CASE("a task hands over a result that can only be moved") {
  int value = 0;
  Scope scope;
  scope.spawn(take_box(&value));
  REQUIRE(value == 7);
}

TEST_CASE("a suspended task goes on where it waited") {
  Turnstile turnstile;
  bool done = false;
  Scope scope;
  scope.spawn(wait_then_set(&turnstile, &done));
  REQUIRE_FALSE(done);
  turnstile.let_through();
  REQUIRE(done);
}

}  // namespace
}  // namespace elastripe
