#include <catch2/catch.hpp>

#include "server-patches/node/format/counter.h"

namespace elastripe::node {
namespace {

std::string changed(std::string_view value, bool increment, uint64_t delta) {
  const auto sum = add_delta(value, increment, delta);
  REQUIRE(sum.has_value());
  REQUIRE(sum->text.starts_with(std::to_string(sum->number)));
  return sum->text;
}

}  // namespace

TEST_CASE("incr and decr follow memcached's rules for the number and its length") {
  REQUIRE(changed("10", true, 5) == "15");
  REQUIRE(changed("99", true, 1) == "100");         // grows
  REQUIRE(changed("10", false, 1) == "9 ");         // keeps its length
  REQUIRE(changed("9 ", true, 1) == "10");          // and takes it up again
  REQUIRE(changed("1000", false, 5000) == "0   ");  // stops at 0
  REQUIRE(changed("0007", true, 1) == "8   ");
  REQUIRE(changed("18446744073709551615", true, 1) == "0                   ");  // wraps
  REQUIRE(changed(" 12", true, 1) == "13 ");
  REQUIRE(changed("12 apples", true, 1) == "13       ");
  REQUIRE(changed("+5", true, 1) == "6 ");
}

TEST_CASE("incr and decr refuse what memcached refuses") {
  REQUIRE_FALSE(add_delta("", true, 1));
  REQUIRE_FALSE(add_delta("abc", true, 1));
  REQUIRE_FALSE(add_delta("12a", true, 1));
  REQUIRE_FALSE(add_delta("-1", true, 1));
  REQUIRE_FALSE(add_delta("18446744073709551616", true, 1));
  REQUIRE_FALSE(add_delta("123456789012345678901", true, 1));
  REQUIRE_FALSE(add_delta(" ", true, 1));
  std::string longest(kMaxCounterBytes, ' ');
  longest.front() = '1';
  REQUIRE(changed(longest, true, 1).size() == longest.size());
  REQUIRE_FALSE(add_delta(longest + " ", true, 1));
}

}  // namespace elastripe::node
