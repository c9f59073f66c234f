#include <catch2/catch.hpp>

#include "server-patches/node/engine/mutation.h"

namespace elastripe::node {

TEST_CASE("incr and decr follow memcached's rules for the number and its length") {
  REQUIRE(add_delta("10", true, 5) == "15");
  REQUIRE(add_delta("99", true, 1) == "100");         // grows
  REQUIRE(add_delta("10", false, 1) == "9 ");         // keeps its length
  REQUIRE(add_delta("9 ", true, 1) == "10");          // and takes it up again
  REQUIRE(add_delta("1000", false, 5000) == "0   ");  // stops at 0
  REQUIRE(add_delta("0007", true, 1) == "8   ");
  REQUIRE(add_delta("18446744073709551615", true, 1) == "0                   ");  // wraps
  REQUIRE(add_delta(" 12", true, 1) == "13 ");
  REQUIRE(add_delta("12 apples", true, 1) == "13       ");
  REQUIRE(add_delta("+5", true, 1) == "6 ");
}

TEST_CASE("incr and decr refuse what memcached refuses") {
  REQUIRE_FALSE(add_delta("", true, 1));
  REQUIRE_FALSE(add_delta("abc", true, 1));
  REQUIRE_FALSE(add_delta("12a", true, 1));
  REQUIRE_FALSE(add_delta("-1", true, 1));
  REQUIRE_FALSE(add_delta("18446744073709551616", true, 1));
  REQUIRE_FALSE(add_delta("123456789012345678901", true, 1));
  REQUIRE_FALSE(add_delta(" ", true, 1));
}

}  // namespace elastripe::node
