#include <catch2/catch.hpp>
#include <vector>

#include "proxy/async/scope.h"
#include "proxy/async/semaphore.h"
#include "tests/unit/async/manual.h"

namespace elastripe {
namespace {

Task<void> hold(Semaphore* semaphore, uint64_t weight, Turnstile* turnstile, int name,
                std::vector<int>* order) {
  auto permit = co_await semaphore->acquire(weight);
  order->push_back(name);
  co_await turnstile->pass();
}
Task<void> count(Semaphore* semaphore, int* counter) {
  auto permit = co_await semaphore->acquire(1);
  ++*counter;
}

TEST_CASE("a large waiter is not starved by small ones behind it") {
  Semaphore semaphore(10);
  Turnstile turnstile;
  std::vector<int> order;
  Scope scope;
  scope.spawn(hold(&semaphore, 6, &turnstile, 1, &order));
  scope.spawn(hold(&semaphore, 8, &turnstile, 2, &order));
  scope.spawn(hold(&semaphore, 1, &turnstile, 3, &order));
  REQUIRE(order == std::vector<int>{1});
  REQUIRE(semaphore.waiting() == 2);
  turnstile.let_through();
  REQUIRE(order == std::vector<int>{1, 2, 3});
  turnstile.let_through(2);
  REQUIRE(semaphore.free() == 10);
}

TEST_CASE("a semaphore that grows serves who waits") {
  Semaphore semaphore(10);
  Turnstile turnstile;
  std::vector<int> order;
  Scope scope;
  scope.spawn(hold(&semaphore, 8, &turnstile, 1, &order));
  scope.spawn(hold(&semaphore, 8, &turnstile, 2, &order));
  scope.spawn(hold(&semaphore, 8, &turnstile, 3, &order));
  semaphore.resize(16);
  CHECK(order == std::vector<int>{1, 2});
  CHECK(semaphore.free() == 0);
  turnstile.let_through(2);
  CHECK(order == std::vector<int>{1, 2, 3});
  turnstile.let_through();
  CHECK(semaphore.free() == 16);
}

TEST_CASE("a semaphore that shrinks below what is held, or wanted, still serves all") {
  Semaphore semaphore(10);
  Turnstile turnstile;
  std::vector<int> order;
  Scope scope;
  scope.spawn(hold(&semaphore, 8, &turnstile, 1, &order));
  scope.spawn(hold(&semaphore, 9, &turnstile, 2, &order));
  semaphore.resize(4);
  CHECK(semaphore.taken() == 8);
  CHECK(semaphore.free() == 0);
  CHECK_FALSE(semaphore.try_acquire(1));
  turnstile.let_through();
  CHECK(order == std::vector<int>{1, 2});
  CHECK(semaphore.taken() == 4);
  turnstile.let_through();
  CHECK(semaphore.free() == 4);
}

TEST_CASE("a weight above the budget takes the whole budget") {
  Semaphore semaphore(4);
  Turnstile turnstile;
  std::vector<int> order;
  Scope scope;
  scope.spawn(hold(&semaphore, 100, &turnstile, 1, &order));
  REQUIRE(semaphore.free() == 0);
  turnstile.let_through();
  REQUIRE(semaphore.free() == 4);
}

TEST_CASE("a hundred thousand waiters that release at once use no stack") {
  Semaphore semaphore(1);
  Turnstile turnstile;
  std::vector<int> order;
  int counter = 0;
  Scope scope;
  scope.spawn(hold(&semaphore, 1, &turnstile, 1, &order));
  for (int i = 0; i < 100'000; ++i) scope.spawn(count(&semaphore, &counter));
  turnstile.let_through();
  REQUIRE(counter == 100'000);
  REQUIRE(semaphore.free() == 1);
}

TEST_CASE("what can be had only by waiting is not tried, nor what others wait for") {
  Semaphore semaphore(10);
  Turnstile turnstile;
  std::vector<int> order;
  Scope scope;
  {
    const auto all = semaphore.try_acquire(11);  // taken as the whole budget
    REQUIRE(all.has_value());
    REQUIRE(semaphore.free() == 0);
    REQUIRE_FALSE(semaphore.try_acquire(1).has_value());
  }
  scope.spawn(hold(&semaphore, 6, &turnstile, 1, &order));
  REQUIRE(semaphore.try_acquire(4).has_value());
  scope.spawn(hold(&semaphore, 8, &turnstile, 2, &order));
  REQUIRE_FALSE(semaphore.try_acquire(4).has_value());
  turnstile.let_through(2);
  REQUIRE(semaphore.free() == 10);
}

}  // namespace
}  // namespace elastripe
