#include <catch2/catch.hpp>

#include "proxy/memcache/meta.h"
#include "proxy/memcache/parse.h"
#include "proxy/memcache/replies.h"

namespace elastripe::memcache {
namespace {

TEST_CASE("a meta get is its key, and everything behind it") {
  RequestParser parser;
  Request request;
  const ParseResult parsed = parser.parse("mg key  v o5 n7 \r\nmn\r\n", request);
  REQUIRE(parsed.status == ParseStatus::kRequest);
  REQUIRE(request.command == Command::kMetaGet);
  REQUIRE(request.key == "key");
  const auto get = parse_meta_get(request.argument);
  REQUIRE(get.has_value());
  CHECK(get->value);
  CHECK(get->offset == 5);
  CHECK(get->length == 7);
  CHECK(get->answers.empty());
  CHECK_FALSE(get->quiet);
  const std::string with_nul("mg k\0y v\r\n", 10);
  CHECK(parser.parse(with_nul, request).refusal == replies::kBadLine);
  for (const char* line : {"mg\r\n", "mg \r\n"}) {
    CHECK(parser.parse(line, request).refusal == replies::kError);
  }
}

TEST_CASE("flags of a meta get are answered in the order in which they are asked for") {
  CHECK(parse_meta_get("s c k f")->answers == "sckf");
  const auto get = parse_meta_get("Oabc q s v");
  REQUIRE(get.has_value());
  CHECK(get->answers == "Os");
  CHECK(get->opaque == "abc");
  CHECK(get->quiet);
  CHECK(get->offset == 0);
  CHECK(get->length == UINT64_MAX);
  CHECK(parse_meta_get("")->answers.empty());
  CHECK(parse_meta_get("vv qx")->value);
  CHECK(parse_meta_get("O")->answers == "O");
}

TEST_CASE("flags that are not known, come twice or are no numbers are refused") {
  const auto error_of = [](std::string_view flags) { return parse_meta_get(flags).error(); };
  for (const char* flags : {"x", "l", "N30", "b"}) {
    CHECK(error_of(flags) == replies::kInvalidFlag);
  }
  CHECK(error_of("v v") == replies::kDuplicateFlag);
  CHECK(error_of("\x7f") == replies::kDuplicateFlag);  // as memcached
  CHECK(error_of("o1 o1") == replies::kDuplicateFlag);
  for (const char* flags : {"o", "n", "o-1", "o+1", "o1x", "n18446744073709551616", "n0x10"}) {
    CHECK(error_of(flags) == replies::kBadToken);
  }
  CHECK(parse_meta_get("n18446744073709551615").has_value());
  CHECK(parse_meta_get("O" + std::string(31, 'o')).has_value());
  CHECK(error_of("O" + std::string(32, 'o')) == replies::kOpaqueTooLong);
  CHECK(error_of("v f s c k q O o1 n1 a b d e g h i j l") == replies::kTooManyFlags);
}

TEST_CASE("a meta set is its key, the number of its bytes, and where they go") {
  RequestParser parser;
  Request request;
  const ParseResult parsed = parser.parse("ms key 5  o7 C12 c k Oabc q s \r\nhello\r\n", request);
  REQUIRE(parsed.status == ParseStatus::kRequest);
  CHECK(request.command == Command::kMetaSet);
  CHECK(is_storage(request.command));
  CHECK(is_write(request.command));
  CHECK(request.key == "key");
  CHECK(request.value_bytes == 5);
  const auto set = parse_meta_set(request.argument);
  REQUIRE(set.has_value());
  CHECK(set->offset == 7);
  CHECK(set->cas == 12);
  CHECK(set->answers == "ckOs");
  CHECK(set->opaque == "abc");
  CHECK(set->quiet);
  CHECK_FALSE(parse_meta_set("o0")->cas.has_value());
}

TEST_CASE("a meta set that is none of a part of a value is refused") {
  const auto error_of = [](std::string_view flags) { return parse_meta_set(flags).error(); };
  for (const char* flags : {"", "c", "o1 x", "o1 T30", "o1 MA", "o1 v", "o1 n5", "o1 F3"}) {
    CHECK(error_of(flags) == replies::kInvalidFlag);
  }
  CHECK(error_of("o1 o2") == replies::kDuplicateFlag);
  for (const char* flags : {"o", "o-1", "ox", "o1 Cx", "o1 C", "o18446744073709551616"}) {
    CHECK(error_of(flags) == replies::kBadToken);
  }
  CHECK(error_of("o1 O" + std::string(32, 'o')) == replies::kOpaqueTooLong);
  RequestParser parser;
  Request request;
  CHECK(parser.parse("ms\r\n", request).refusal == replies::kError);
  for (const char* line : {"ms k\r\n", "ms k x o1\r\n", "ms k -1 o1\r\n"}) {
    CHECK(parser.parse(line, request).refusal == replies::kBadLine);
  }
}

}  // namespace
}  // namespace elastripe::memcache
