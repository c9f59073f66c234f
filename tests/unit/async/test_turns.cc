#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "proxy/async/scope.h"
#include "proxy/async/turns.h"
#include "tests/unit/async/manual.h"

namespace elastripe {
namespace {

Task<void> work(Turns::Ticket ticket, Turnstile* turnstile, int name, std::vector<int>* order) {
  if (turnstile != nullptr) co_await turnstile->pass();
  co_await ticket.turn();
  order->push_back(name);
}

TEST_CASE("turns come in the order of the tickets, whoever is ready first") {
  Turns turns;
  Turnstile turnstile;
  std::vector<int> order;
  Scope scope;
  scope.spawn(work(turns.take(), &turnstile, 1, &order));
  scope.spawn(work(turns.take(), nullptr, 2, &order));
  scope.spawn(work(turns.take(), nullptr, 3, &order));
  REQUIRE(order.empty());
  turnstile.let_through();
  REQUIRE(order == std::vector<int>{1, 2, 3});
  REQUIRE(turns.take().has_turn());
}

TEST_CASE("a ticket that is given back before its turn holds nobody up") {
  Turns turns;
  std::vector<int> order;
  Scope scope;
  {
    auto first = turns.take();
    {
      auto second = turns.take();
      REQUIRE(first.has_turn());
      REQUIRE_FALSE(second.has_turn());
    }
    scope.spawn(work(turns.take(), nullptr, 3, &order));
    REQUIRE(order.empty());
  }
  REQUIRE(order == std::vector<int>{3});
}

TEST_CASE("tickets that are moved keep their places") {
  Turns turns;
  auto first = std::make_optional(turns.take());
  auto second = std::make_optional(turns.take());
  auto third = std::make_optional(turns.take());
  auto moved_second = std::make_optional(std::move(*second));
  second.reset();
  auto moved_first = std::make_optional(std::move(*first));
  first.reset();
  REQUIRE(moved_first->has_turn());
  moved_first.reset();
  REQUIRE(moved_second->has_turn());
  REQUIRE_FALSE(third->has_turn());
  moved_second.reset();
  REQUIRE(third->has_turn());
}

TEST_CASE("a long queue of turns uses no stack") {
  Turns turns;
  std::vector<int> order;
  Scope scope;
  {
    auto first = turns.take();
    for (int i = 0; i < 100'000; ++i) scope.spawn(work(turns.take(), nullptr, i, &order));
    REQUIRE(order.empty());
  }
  REQUIRE(order.size() == 100'000);
}

}  // namespace
}  // namespace elastripe
