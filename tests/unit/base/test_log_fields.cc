#include <catch2/catch.hpp>

#include "proxy/base/log_fields.h"

namespace elastripe {

TEST_CASE("fields of a line of the log can be taken apart again") {
  CHECK(LogFields().text().empty());
  CHECK(LogFields().add("node", "n3").add("epoch", 42).add_seconds("seconds", 1.23456).text() ==
        "node=n3 epoch=42 seconds=1.235");
  CHECK(LogFields().add("address", "127.0.0.1:11401").text() == "address=127.0.0.1:11401");
  CHECK(LogFields().add("change", -3).add("bytes", uint64_t{1} << 63).text() ==
        "change=-3 bytes=9223372036854775808");
}

TEST_CASE("what is no plain word is quoted") {
  CHECK(LogFields().add("reason", "it is away").text() == "reason=\"it is away\"");
  CHECK(LogFields().add("reason", "").text() == "reason=\"\"");
  CHECK(LogFields().add_if_any("reason", "").text().empty());
  CHECK(LogFields().add_if_any("reason", "full").text() == "reason=full");
  CHECK(LogFields().add("node", "a=b").text() == "node=\"a=b\"");
  CHECK(LogFields().add("node", "say \"n1\" \\").text() == R"(node="say \"n1\" \\")");
  CHECK(LogFields().add("node", "a\nb\xff").text() == R"(node="a\x0ab\xff")");
}

}  // namespace elastripe
