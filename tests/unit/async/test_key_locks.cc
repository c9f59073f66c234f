#include <catch2/catch.hpp>
#include <vector>

#include "proxy/async/key_locks.h"
#include "proxy/async/scope.h"
#include "tests/unit/async/manual.h"

namespace elastripe {
namespace {

Task<void> hold(KeyLocks* locks, std::string key, Turnstile* turnstile, int name,
                std::vector<int>* order) {
  auto guard = co_await locks->lock(std::move(key));
  order->push_back(name);
  co_await turnstile->pass();
}

TEST_CASE("operations of one key run one after the other, in order") {
  KeyLocks locks;
  Turnstile turnstile;
  std::vector<int> order;
  Scope scope;
  for (int i = 1; i <= 3; ++i) scope.spawn(hold(&locks, "a", &turnstile, i, &order));
  REQUIRE(order == std::vector<int>{1});
  turnstile.let_through();
  REQUIRE(order == std::vector<int>{1, 2});
  turnstile.let_through();
  turnstile.let_through();
  REQUIRE(order == std::vector<int>{1, 2, 3});
  REQUIRE(locks.keys() == 0);
}

TEST_CASE("operations of different keys run at the same time") {
  KeyLocks locks;
  Turnstile turnstile;
  std::vector<int> order;
  Scope scope;
  scope.spawn(hold(&locks, "a", &turnstile, 1, &order));
  scope.spawn(hold(&locks, "b", &turnstile, 2, &order));
  REQUIRE(order == std::vector<int>{1, 2});
  REQUIRE(locks.keys() == 2);
  turnstile.let_through(2);
  REQUIRE(locks.keys() == 0);
}

Task<void> count(KeyLocks* locks, int* counter) {
  const auto guard = co_await locks->lock("a");
  ++*counter;
}

TEST_CASE("a hundred thousand operations that wait for one key use no stack") {
  KeyLocks locks;
  Turnstile turnstile;
  std::vector<int> order;
  int counter = 0;
  Scope scope;
  scope.spawn(hold(&locks, "a", &turnstile, 1, &order));
  for (int i = 0; i < 100'000; ++i) scope.spawn(count(&locks, &counter));
  REQUIRE(counter == 0);
  turnstile.let_through();
  REQUIRE(counter == 100'000);
  REQUIRE(locks.keys() == 0);
}

Task<void> lock_twice(KeyLocks* locks, int name, std::vector<int>* order) {
  for (int i = 0; i < 2; ++i) {
    const auto guard = co_await locks->lock("a");
    order->push_back(name);
  }
}

TEST_CASE("who asks for a key again goes behind those that wait for it") {
  KeyLocks locks;
  Turnstile turnstile;
  std::vector<int> order;
  Scope scope;
  scope.spawn(hold(&locks, "a", &turnstile, 1, &order));
  scope.spawn(lock_twice(&locks, 2, &order));
  scope.spawn(lock_twice(&locks, 3, &order));
  turnstile.let_through();
  REQUIRE(order == std::vector<int>{1, 2, 3, 2, 3});
  scope.spawn(hold(&locks, "b", &turnstile, 4, &order));
  REQUIRE(locks.keys() == 1);
  turnstile.let_through();
  REQUIRE(locks.keys() == 0);
}

}  // namespace
}  // namespace elastripe
