#include <catch2/catch.hpp>
#include <memory>

#include "proxy/async/scope.h"
#include "tests/unit/async/manual.h"

namespace elastripe {
namespace {

Task<void> wait(Turnstile* turnstile) { co_await turnstile->pass(); }
Task<void> wait_holding(Turnstile* turnstile, std::shared_ptr<int>) { co_await turnstile->pass(); }
Task<void> join(Scope* scope, bool* joined) {
  co_await scope->join();
  *joined = true;
}
Task<void> join_then_count(Scope* scope, std::shared_ptr<int>* held, long* uses) {
  co_await scope->join();
  *uses = held->use_count();
}

TEST_CASE("a scope refuses flows above its bound") {
  Turnstile turnstile;
  Scope scope(2);
  REQUIRE(scope.try_spawn(wait(&turnstile)));
  REQUIRE(scope.try_spawn(wait(&turnstile)));
  REQUIRE_FALSE(scope.try_spawn(wait(&turnstile)));
  turnstile.let_through();
  REQUIRE(scope.try_spawn(wait(&turnstile)));
  turnstile.let_through(2);
  REQUIRE(scope.live() == 0);
}

TEST_CASE("join ends after the last flow, and closes the scope") {
  Turnstile turnstile;
  Scope outer;
  Scope scope;
  scope.spawn(wait(&turnstile));
  scope.spawn(wait(&turnstile));
  bool joined = false;
  outer.spawn(join(&scope, &joined));
  REQUIRE_FALSE(scope.try_spawn(wait(&turnstile)));
  turnstile.let_through();
  REQUIRE_FALSE(joined);
  turnstile.let_through();
  REQUIRE(joined);
}

TEST_CASE("join of an empty scope ends at once") {
  Scope outer;
  Scope scope;
  bool joined = false;
  outer.spawn(join(&scope, &joined));
  REQUIRE(joined);
}

TEST_CASE("the frames of a scope's flows are gone when its joiner goes on") {
  Turnstile turnstile;
  Scope outer;
  Scope scope;
  auto held = std::make_shared<int>(1);
  scope.spawn(wait_holding(&turnstile, held));
  long uses = 0;
  outer.spawn(join_then_count(&scope, &held, &uses));
  turnstile.let_through();
  REQUIRE(uses == 1);
}

}  // namespace
}  // namespace elastripe
