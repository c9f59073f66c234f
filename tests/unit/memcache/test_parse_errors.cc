#include <catch2/catch.hpp>
#include <string>

#include "proxy/memcache/parse.h"
#include "proxy/memcache/replies.h"

using namespace elastripe::memcache;

namespace {

ParseResult parse(std::string_view input, ParseLimits limits = {}) {
  RequestParser parser(limits);
  Request request;
  return parser.parse(input, request);
}

// Why a line is refused, which must keep the connection open.
Refusal refusal(const std::string& line) {
  const std::string input = line + "\r\n";
  const ParseResult result = parse(input);
  CAPTURE(line);
  REQUIRE(result.status == ParseStatus::kInvalid);
  REQUIRE_FALSE(result.close);
  REQUIRE(result.consumed == input.size());
  return result.refusal;
}

const std::string kLongestKey(250, 'k');
const std::string kLongKey(251, 'k');

}  // namespace

// Expected replies below were taken from memcached 1.6.18 itself.

TEST_CASE("unknown, empty and misspelt commands are ERROR", "[parse]") {
  for (const char* line : {"", "a", "nonsense", "SET k 0 0 1", "\tversion", "version\t", "mx",
                           "mx k", "delete\tk", "slabs automove", "lru_crawler", "lru x 1"}) {
    CHECK(refusal(line) == replies::kError);
  }
  CHECK(refusal("shutdown") == replies::kShutdownDisabled);
}

TEST_CASE("what memcached does not take to tune its memory is refused as there", "[parse]") {
  for (const char* line :
       {"lru tune 10 x 0.1 2.0", "lru tune 10 25 0.1", "lru mode x", "lru temp_ttl x",
        "lru_crawler enable x", "lru_crawler sleep", "lru_crawler crawl 1 noreply",
        "lru_crawler metadump", "lru_crawler x y", "slabs reassign 1", "slabs automove 3",
        "slabs automove ratio", "slabs automove ratio x"}) {
    CAPTURE(line);
    CHECK(refusal(line) == replies::kError);
  }
  CHECK(refusal("lru tune 60 60 0.1 2.0") == replies::kHotAndWarmTooLarge);
  CHECK(refusal("lru tune 4294967295 4294967295 0.1 2.0") == replies::kHotAndWarmTooLarge);
  CHECK(refusal("lru tune 10 10 0.1 0") == replies::kBadAgeFactor);
  CHECK(refusal("lru_crawler sleep 1000001") == replies::kSleepTooLong);
  CHECK(refusal("lru_crawler tocrawl x") == replies::kBadLine);
  CHECK(refusal("lru_crawler metadump 2") == replies::kBadClass);
  CHECK(refusal("lru_crawler crawl hash") == replies::kBadClass);
  CHECK(refusal("slabs automove x") == replies::kBadLine);
  CHECK(refusal("slabs automove x noreply") == Refusal{});
  CHECK(refusal("slabs reassign 1 2") == replies::kReassignDisabled);
  CHECK(refusal("watch fetchers") == replies::kWatchNotAllowed);
  CHECK(refusal("stats cachedump 1") == replies::kBadCachedump);
  CHECK(refusal("stats cachedump 1 x") == replies::kBadLine);
  CHECK(refusal("stats cachedump 64 1") == replies::kIllegalSlab);
}

TEST_CASE("a wrong number of arguments is ERROR", "[parse]") {
  for (const char* line : {"get",
                           "get ",
                           "gets",
                           "gat",
                           "set",
                           "set k 0 0",
                           "set k 0 0 1 noreply x",
                           "add k 0 0",
                           "cas k 0 0 1",
                           "cas k 0 0 1 2 noreply x",
                           "incr k",
                           "incr k 1 noreply x",
                           "decr",
                           "delete",
                           "delete k a b c",
                           "touch k",
                           "touch k 1 noreply x",
                           "verbosity",
                           "verbosity 1 2 3",
                           "flush_all 1 2 3"}) {
    CHECK(refusal(line) == replies::kError);
  }
}

TEST_CASE("keys of 250 bytes are taken and longer ones refused", "[parse]") {
  for (const std::string& line :
       {"get " + kLongestKey, "touch " + kLongestKey + " 0", "set " + kLongestKey + " 0 0 1"}) {
    CHECK(parse(line + "\r\n").status == ParseStatus::kRequest);
  }
  for (const std::string& line :
       {"get " + kLongKey, "get a " + kLongKey + " b", "gat 0 " + kLongKey, "delete " + kLongKey,
        "touch " + kLongKey + " 0", "incr " + kLongKey + " 1", "set " + kLongKey + " 0 0 1"}) {
    CHECK(refusal(line) == replies::kBadLine);
  }
}

TEST_CASE("keys may have any byte but those that end words and lines, and are never cut",
          "[parse]") {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (c == '\n' || c == ' ') continue;
    const std::string line = std::string("get a") + c + "b\r\n";
    CAPTURE(byte);
    CHECK((parse(line).status == ParseStatus::kInvalid) == (c == '\0'));
    CHECK(is_valid_key(std::string(1, c)) == (c != '\0'));
  }
  CHECK(refusal(std::string("delete a\0b", 10)) == replies::kBadLine);
}

TEST_CASE("bad numbers of storage commands are a bad command line", "[parse]") {
  for (const char* line : {"set k x 0 1",
                           "set k -1 0 1",
                           "set k 4294967296 0 1",
                           "set k 0 x 1",
                           "set k 0 9223372036854775808 1",
                           "set k 0 0 x",
                           "set k 0 0 -1",
                           "set k 0 0 2147483646",
                           "set k 0 0 2147483647",
                           "set k 0 0 4294967295",
                           "set k 0 0 4294967297",
                           "set k 0 0 99999999999999999999",
                           "cas k 0 0 1 x",
                           "cas k 0 0 1 -1",
                           "cas k 0 0 1 18446744073709551616",
                           "cas k x 0 0 0",
                           "set k 0 0 0x10",
                           "set k 0 0 1.5",
                           "set k 0 0 +-1",
                           "set k 0 0 +",
                           "set k 0 0 -"}) {
    CHECK(refusal(line) == replies::kBadLine);
  }
}

TEST_CASE("the data block of a refused storage line is swallowed, not obeyed", "[parse]") {
  const auto swallowed = [](const std::string& line) { return parse(line).swallow_bytes; };
  CHECK(swallowed("set " + kLongKey + " 0 0 7\r\n") == 9);
  CHECK(swallowed("set k x 0 7\r\n") == 9);
  CHECK(swallowed("cas k 0 0 0 x\r\n") == 2);
  CHECK(swallowed("ms k 5 a\r\n") == 7);
  CHECK(swallowed("ms k 5 o1 a\r\n") == 7);
  CHECK(swallowed("ms " + kLongKey + " 5 o1\r\n") == 7);
  // Without a length there is nothing to go by.
  CHECK(swallowed("set k 0 0 -1\r\n") == 0);
  CHECK(swallowed("set k 0 0 2147483647\r\n") == 0);
  CHECK(swallowed("set k 0 0\r\n") == 0);
  CHECK(swallowed("ms k x\r\n") == 0);
}

TEST_CASE("each command has its own error text", "[parse]") {
  CHECK(refusal("incr k x") == replies::kBadDelta);
  CHECK(refusal("incr k -1") == replies::kBadDelta);
  CHECK(refusal("decr k 18446744073709551616") == replies::kBadDelta);
  CHECK(refusal("touch k x") == replies::kBadExptime);
  CHECK(refusal("touch k 99999999999999999999") == replies::kBadExptime);
  CHECK(refusal("gat x k") == replies::kBadExptime);
  CHECK(refusal("flush_all x") == replies::kBadExptime);
  CHECK(refusal("verbosity x") == replies::kBadLine);
  CHECK(refusal("delete k 5") == replies::kBadDelete);
  CHECK(refusal("delete k 0 0") == replies::kBadDelete);
}

TEST_CASE("noreply silences errors too, but not ERROR", "[parse]") {
  for (const std::string& line :
       {std::string("set k 0 0 noreply"), "set " + kLongKey + " 0 0 1 noreply",
        std::string("incr k noreply"), std::string("touch k noreply"),
        std::string("delete k 5 noreply"), std::string("flush_all x noreply"),
        std::string("verbosity x noreply")}) {
    CHECK_FALSE(refusal(line));
  }
  CHECK(refusal("set k 0 noreply") == replies::kError);
}

TEST_CASE("HTTP requests close the connection without a reply", "[parse]") {
  for (const char* line :
       {"GET / HTTP/1.1\r\n", "POST /x HTTP/1.0\r\n", "HTTP/1\r\n", "put / HTTP/1.1\r\n"}) {
    const ParseResult result = parse(line);
    CAPTURE(line);
    CHECK(result.status == ParseStatus::kInvalid);
    CHECK(result.close);
    CHECK_FALSE(result.refusal);
  }
  CHECK(parse("get / HTTP/1.1\r\n").status == ParseStatus::kRequest);
  CHECK(refusal("delete / HTTP/1.1") == replies::kBadDelete);
}

TEST_CASE("lines are capped with and without their end", "[parse]") {
  const std::string longest = "version " + std::string(2040, 'x');
  CHECK(parse(longest).status == ParseStatus::kNeedMore);
  CHECK(parse(longest + "\n").status == ParseStatus::kRequest);
  for (const std::string& end : {"", "\n", "\r\n"}) {
    const ParseResult result = parse(longest + "x" + end);
    CHECK(result.status == ParseStatus::kInvalid);
    CHECK(result.close);
    CHECK(result.refusal == replies::kLineTooLong);
  }
  CHECK(parse(std::string(3000, ' ')).close);
}

TEST_CASE("retrieval lines have caps of their own on bytes and keys", "[parse]") {
  const ParseLimits limits{.line_bytes = 100, .retrieval_line_bytes = 1000, .retrieval_keys = 50};
  std::string line = "get";
  for (int i = 0; i < 50; ++i) line += " key";
  CHECK(parse(line + "\r\n", limits).status == ParseStatus::kRequest);
  CHECK(parse(line + " k\r\n", limits).refusal == replies::kTooManyKeys);
  CHECK_FALSE(parse(line + " k\r\n", limits).close);
  CHECK(parse("gats 0" + std::string(994, ' '), limits).status == ParseStatus::kNeedMore);
  CHECK(parse("gats 0" + std::string(995, ' '), limits).refusal == replies::kLineTooLong);
  CHECK(parse("set k 0 0 1" + std::string(100, ' '), limits).close);
}
