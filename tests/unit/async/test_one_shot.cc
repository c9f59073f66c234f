#include <catch2/catch.hpp>
#include <memory>

#include "proxy/async/one_shot.h"
#include "proxy/async/scope.h"

namespace elastripe {
namespace {

Task<void> take(OneShot<std::unique_ptr<int>>* shot, int* out) { *out = *co_await *shot; }

TEST_CASE("a one-shot that is set first is taken without waiting") {
  OneShot<std::unique_ptr<int>> shot;
  shot.set(std::make_unique<int>(3));
  REQUIRE(shot.is_set());
  int value = 0;
  Scope scope;
  scope.spawn(take(&shot, &value));
  REQUIRE(value == 3);
}

TEST_CASE("a one-shot that is awaited first resumes its waiter when set") {
  OneShot<std::unique_ptr<int>> shot;
  int value = 0;
  Scope scope;
  scope.spawn(take(&shot, &value));
  REQUIRE(value == 0);
  shot.set(std::make_unique<int>(4));
  REQUIRE(value == 4);
}

}  // namespace
}  // namespace elastripe
