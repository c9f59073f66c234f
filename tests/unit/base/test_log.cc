#include <catch2/catch.hpp>

#include "proxy/base/log.h"

using namespace elastripe;

TEST_CASE("lines below the log level are not formatted", "[log]") {
  set_log_level(LogLevel::kError);
  CHECK_FALSE(log_enabled(LogLevel::kWarning));
  CHECK(log_enabled(LogLevel::kError));
  set_log_level(LogLevel::kOff);
  CHECK_FALSE(log_enabled(LogLevel::kError));
  log_error("not seen {}", 1);
  set_log_level(LogLevel::kInfo);
  CHECK(log_enabled(LogLevel::kInfo));
  CHECK_FALSE(log_enabled(LogLevel::kDebug));
}
