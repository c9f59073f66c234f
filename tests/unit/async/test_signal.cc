#include <catch2/catch.hpp>

#include "proxy/async/scope.h"
#include "proxy/async/signal.h"

namespace elastripe {
namespace {

Task<void> count_waits(Signal& signal, int times, int* count) {
  for (int i = 0; i < times; ++i) {
    co_await signal.wait();
    ++*count;
  }
}

TEST_CASE("a signal wakes its waiter, and is remembered once while nobody waits") {
  Signal signal;
  Scope scope;
  int count = 0;
  signal.set();
  signal.set();
  scope.spawn(count_waits(signal, 3, &count));
  CHECK(count == 1);
  signal.set();
  CHECK(count == 2);
  signal.set();
  CHECK(count == 3);
  CHECK(scope.live() == 0);
}

}  // namespace
}  // namespace elastripe
