#include <catch2/catch.hpp>
#include <string>

#include "proxy/memcache/compose.h"
#include "proxy/memcache/replies.h"

using namespace elastripe::memcache;
using elastripe::Buffer;

namespace {
template <class Compose>
std::string text(Compose compose) {
  Output output;
  compose(output);
  const std::string all = output.flatten();
  CHECK(output.bytes() == all.size());
  return all;
}
}  // namespace

TEST_CASE("values are composed as memcached does", "[compose]") {
  CHECK(text([](Output& out) { compose_value(out, "k", 7, Buffer::copy_of("abc"), {}); }) ==
        "VALUE k 7 3\r\nabc\r\n");
  CHECK(text([](Output& out) {
          compose_value(out, "k", 4294967295, Buffer(), 18446744073709551615ULL);
        }) == "VALUE k 4294967295 0 18446744073709551615\r\n\r\n");
}

TEST_CASE("a value of many parts is composed like one piece", "[compose]") {
  Output output;
  compose_value_header(output, "k", 1, 6, 9);
  output.append(Buffer::copy_of("abc"));
  output.append(Buffer::copy_of("def"));
  compose_value_trailer(output);
  compose_line(output, replies::kEnd);
  CHECK(output.flatten() == "VALUE k 1 6 9\r\nabcdef\r\nEND\r\n");
}

TEST_CASE("lines, numbers, stats, version and errors end their line", "[compose]") {
  CHECK(text([](Output& out) { compose_line(out, replies::kStored); }) == "STORED\r\n");
  CHECK(text([](Output& out) { compose_number(out, 18446744073709551615ULL); }) ==
        "18446744073709551615\r\n");
  CHECK(text([](Output& out) { compose_stat(out, "pid", "17"); }) == "STAT pid 17\r\n");
  CHECK(text([](Output& out) { compose_version(out, "1.6.18"); }) == "VERSION 1.6.18\r\n");
  CHECK(text([](Output& out) { compose_client_error(out, "no"); }) == "CLIENT_ERROR no\r\n");
  CHECK(text([](Output& out) { compose_server_error(out, "why"); }) == "SERVER_ERROR why\r\n");
}

TEST_CASE("dumps are composed as memcached's", "[compose]") {
  CHECK(text([](Output& out) { compose_metadump(out, "a-._~Z9 %\xff", 0, 7, 3); }) ==
        "key=a-._~Z9%20%25%FF exp=-1 la=0 cas=7 fetch=no cls=1 size=3\n");
  CHECK(text([](Output& out) { compose_metadump(out, "k", 4000000000, 7, 3); }) ==
        "key=k exp=4000000000 la=0 cas=7 fetch=no cls=1 size=3\n");
  CHECK(text([](Output& out) { compose_cachedump(out, "k", 9, 3); }) == "ITEM k [3 b; 9 s]\r\n");
}

TEST_CASE("an error's reason stays one line of bounded length", "[compose]") {
  CHECK(text([](Output& out) { compose_server_error(out, "a\r\nSTORED\x7f"); }) ==
        "SERVER_ERROR a  STORED \r\n");
  const std::string line =
      text([](Output& out) { compose_client_error(out, std::string(5000, 'x')); });
  CHECK(line.size() < 250);
  CHECK(text([](Output& out) { compose_stat(out, "k", "a\nb"); }) == "STAT k a b\r\n");
}

TEST_CASE("large values are passed by reference and small ones copied", "[compose]") {
  Output output;
  const Buffer large = Buffer::copy_of(std::string(Output::kReferenceBytes, 'l'));
  const Buffer small = Buffer::copy_of(std::string(Output::kReferenceBytes - 1, 's'));
  compose_value(output, "k", 0, large, {});
  compose_value(output, "k", 0, small, {});
  const std::string all = output.flatten();
  std::vector<std::string> pieces;
  std::vector<const std::byte*> values;
  const auto drain = [&] {
    output.drain([&](std::string_view text) { pieces.emplace_back(text); },
                 [&](const Buffer& value) {
                   pieces.emplace_back(value.text());
                   values.push_back(value.data());
                 });
  };
  drain();
  REQUIRE(pieces.size() == 3);
  REQUIRE(values == std::vector{large.data()});
  CHECK(output.empty());
  CHECK(output.flatten().empty());
  std::string joined;
  for (const auto& piece : pieces) joined += piece;
  CHECK(joined == all);
  drain();
  CHECK(pieces.size() == 3);
}

TEST_CASE("an output that is appended to another keeps its order", "[compose]") {
  const Buffer large = Buffer::copy_of(std::string(Output::kReferenceBytes, 'l'));
  Output first;
  first.append("a");
  first.append(large);
  Output second;
  second.append("b");
  second.append(large);
  second.append("c");
  Output both;
  both.append(std::move(first));
  both.append(std::move(second));
  const std::string value(large.text());
  CHECK(both.flatten() == "a" + value + "b" + value + "c");
  CHECK(both.bytes() == 3 + 2 * value.size());
}
