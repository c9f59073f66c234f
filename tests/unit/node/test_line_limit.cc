#include <catch2/catch.hpp>

#include "server-patches/node/engine/line_limit.h"

using elastripe::node::LineLimit;

TEST_CASE("so many lines a period are logged, and the next one tells how many were not") {
  LineLimit limit(3, 1000);
  for (int i = 0; i < 3; ++i) {
    const auto turn = limit.next(5000);
    REQUIRE(turn.may_log);
    REQUIRE(turn.left_out == 0);
  }
  for (int i = 0; i < 70; ++i) REQUIRE_FALSE(limit.next(5999).may_log);
  const auto later = limit.next(6000);
  REQUIRE(later.may_log);
  REQUIRE(later.left_out == 70);
  REQUIRE(limit.next(6001).left_out == 0);
}
