#include <catch2/catch.hpp>
#include <set>

#include "proxy/base/error.h"
#include "proxy/base/hash.h"

using namespace elastripe;

namespace {
Result<int> half(int number) {
  if (number % 2 != 0) return fail(ErrorCode::kInvalid, "{} is odd", number);
  return number / 2;
}
Result<> check_quarter(int number) {
  const Result<int> first = half(number);
  if (!first) return fail(first.error());
  return {};
}
}  // namespace

TEST_CASE("a result carries a value or an error with a formatted message", "[error]") {
  CHECK(half(8).value() == 4);
  REQUIRE_FALSE(half(3).has_value());
  CHECK(half(3).error().code == ErrorCode::kInvalid);
  CHECK(to_string(half(3).error()) == "invalid: 3 is odd");
  CHECK(check_quarter(2).has_value());
  CHECK(check_quarter(5).error().message == "5 is odd");
}

TEST_CASE("every error code has a name of its own", "[error]") {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kLost); ++code) {
    names.insert(name(static_cast<ErrorCode>(code)));
  }
  CHECK(names.size() == static_cast<size_t>(ErrorCode::kLost) + 1);
}

TEST_CASE("hash64 is XXH3, which never changes", "[hash]") {
  CHECK(hash64("") == 0x2d06800538d394c2);
  CHECK(hash64("a") == 0xe6c632b61e964e1f);
  CHECK(hash64("a") != hash64("b"));
}
