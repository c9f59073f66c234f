#include <catch2/catch.hpp>

#include "coding/scheme.h"

namespace elastripe::coding {

TEST_CASE("every layout parses and prints as it was written") {
  for (const char* text : {"rs:4,2", "rs:64,8", "srs:4,1,5", "ers-1:12,3,14", "ers-2:2,1,64",
                           "rep:2", "rep:9", "ers-2:1,2,3"}) {
    INFO(text);
    const auto scheme = parse_scheme(text);
    REQUIRE(scheme);
    CHECK(to_string(*scheme) == text);
    CHECK(validate(*scheme));
  }
}

TEST_CASE("short forms print in full") {
  CHECK(to_string(parse_scheme("ers:4,1,5").value()) == "ers-2:4,1,5");
  CHECK(to_string(parse_scheme("rs:1,2").value()) == "rep:3");
}

TEST_CASE("a parsed scheme has the numbers of the text") {
  CHECK(parse_scheme("ers-1:6,2,7").value() == Scheme{LayoutKind::kErs1, 6, 2, 7});
  CHECK(parse_scheme("rep:3").value() == Scheme{LayoutKind::kRs, 1, 2, 1});
  CHECK(parse_scheme("rs:10,4").value() == Scheme{LayoutKind::kRs, 10, 4, 10});
  CHECK(parse_scheme("rs:10,4").value().shards() == 14);
}

TEST_CASE("text that is no scheme is refused with one line") {
  for (const char* text :
       {"",           "rs",          "rs:",         "rs:4",        "rs:4,2,5",  "rs:4,0",
        "rs:0,1",     "rs:65,1",     "rs:4,9",      "rs:4,2 ",     "rs: 4,2",   "rs:+4,2",
        "rs:-4,2",    "rs:4,,2",     "rs:4,2,",     "rep:1",       "rep:10",    "rep:2,1",
        "rep:",       "RS:4,2",      "xor:4,1,5",   "ers:5,1,5",   "ers:6,1,5", "ers:4,1",
        "srs:4,1,65", "ers:63,1,64", "ers-3:4,1,5", "rs:9999,1",   ":4,2",      "rs:0x4,2",
        "rs:4,256",   "rs:260,2",    "srs:0,1,4",   "ers-2:4,1,0", "ers:4,0,5", "rs:4\n,2"}) {
    INFO(text);
    const auto scheme = parse_scheme(text);
    REQUIRE_FALSE(scheme);
    CHECK_FALSE(scheme.error().empty());
  }
}

TEST_CASE("a scheme decoded from bytes is checked like text") {
  CHECK(validate({LayoutKind::kErs2, 4, 1, 5}));
  CHECK_FALSE(validate({static_cast<LayoutKind>(4), 4, 1, 5}));
  CHECK_FALSE(validate({LayoutKind::kRs, 4, 1, 5}));
  CHECK_FALSE(validate({LayoutKind::kSrs, 5, 1, 5}));
  CHECK_FALSE(validate({LayoutKind::kErs1, 4, 0, 5}));
  CHECK_FALSE(validate({LayoutKind::kErs1, 0, 1, 5}));
  CHECK_FALSE(validate({LayoutKind::kErs1, 4, 1, 255}));
}

}  // namespace elastripe::coding
