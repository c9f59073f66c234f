#include <catch2/catch.hpp>
#include <limits>

#include "proxy/memcache/exptime.h"

using elastripe::memcache::absolute_exptime;

namespace {
constexpr int64_t kNow_s = 1'750'000'000;
constexpr int32_t kMonth_s = 30 * 24 * 60 * 60;
}  // namespace

TEST_CASE("exptime 0 never expires", "[exptime]") { CHECK(absolute_exptime(0, kNow_s) == 0); }

TEST_CASE("exptime up to 30 days counts from now", "[exptime]") {
  CHECK(absolute_exptime(1, kNow_s) == kNow_s + 1);
  CHECK(absolute_exptime(kMonth_s, kNow_s) == kNow_s + kMonth_s);
}

TEST_CASE("exptime beyond 30 days is a unix time, also in the past", "[exptime]") {
  CHECK(absolute_exptime(kMonth_s + 1, kNow_s) == kMonth_s + 1);
  CHECK(absolute_exptime(2'000'000'000, kNow_s) == 2'000'000'000);
}

TEST_CASE("a negative exptime has expired", "[exptime]") {
  CHECK(absolute_exptime(-1, kNow_s) == 1);
  CHECK(absolute_exptime(std::numeric_limits<int32_t>::min(), kNow_s) == 1);
}

TEST_CASE("no clock turns a relative exptime into never", "[exptime]") {
  CHECK(absolute_exptime(5, -100) == 1);
  CHECK(absolute_exptime(5, int64_t{1} << 40) == std::numeric_limits<uint32_t>::max());
}
