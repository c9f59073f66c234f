#include <catch2/catch.hpp>

#include "proxy/base/bytes.h"

using elastripe::as_bytes;
using elastripe::as_string_view;
using elastripe::escape_for_log;
using elastripe::one_line;
using elastripe::shown_on_line;

TEST_CASE("text and bytes view the same memory", "[bytes]") {
  const std::string_view text = "ab\0c";
  CHECK(as_bytes(text).size() == text.size());
  CHECK(as_string_view(as_bytes(text)).data() == text.data());
}

TEST_CASE("escaped keys hold no space, line break, quote or byte outside ASCII", "[bytes]") {
  CHECK(escape_for_log("user:17") == "user:17");
  CHECK(escape_for_log("a b\r\n") == "a\\x20b\\x0d\\x0a");
  CHECK(escape_for_log(std::string_view("\0k", 2)) == "\\x00k");
  CHECK(escape_for_log("\\\"'") == "\\x5c\\x22\\x27");
  CHECK(escape_for_log("\x7f\xff") == "\\x7f\\xff");
}

TEST_CASE("what somebody has typed stays readable", "[bytes]") {
  CHECK(shown_on_line(R"(pools.1={prefix: "img/", scheme: 'rep:2'})", 80) ==
        R"(pools.1={prefix: "img/", scheme: 'rep:2'})");
  CHECK(shown_on_line("a\nb\x7f\xff", 80) == "a\\x0ab\\x7f\\xff");
  CHECK(shown_on_line("abcdefg", 6) == "abcdef...");
}

TEST_CASE("long keys are cut in logs", "[bytes]") {
  CHECK(escape_for_log("abcdef", 6) == "abcdef");
  CHECK(escape_for_log("abcdefg", 6) == "abcdef...");
}

TEST_CASE("a text of somebody else becomes one line", "[base]") {
  CHECK(one_line("bad 'a\r\nb' here\x7f") == "bad 'a  b' here ");
  CHECK(one_line("gr\xc3\xbc\xc3\x9f") == "gr\xc3\xbc\xc3\x9f");
}
