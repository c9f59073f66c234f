#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "proxy/memcache/parse.h"
#include "proxy/memcache/replies.h"

using namespace elastripe::memcache;

namespace {

// One parsed line with its text copied out of the input.
struct Line {
  ParseResult result;
  Request request;
  std::string key;
  std::vector<std::string> keys;
  std::string argument;
  BinaryHead binary;
};

Line copy_of(const ParseResult& result, const Request& request) {
  Line line{result,
            request,
            std::string(request.key),
            {},
            std::string(request.argument),
            request.binary.value_or(BinaryHead{})};
  for (const std::string_view key : request.keys) line.keys.emplace_back(key);
  return line;
}

Line parse(const std::string& input) {
  RequestParser parser;
  Request request;
  const ParseResult result = parser.parse(input, request);
  return copy_of(result, request);
}

// Parses and expects a request that takes the whole input.
Line request_of(const std::string& input) {
  Line line = parse(input);
  CAPTURE(input, line.result.refusal.line);
  REQUIRE(line.result.status == ParseStatus::kRequest);
  REQUIRE(line.result.consumed == input.size());
  return line;
}

void require_equal(const Line& a, const Line& b) {
  REQUIRE(a.result.status == b.result.status);
  REQUIRE(a.result.refusal == b.result.refusal);
  REQUIRE(a.binary.opcode == b.binary.opcode);
  REQUIRE(a.binary.opaque == b.binary.opaque);
  REQUIRE(a.result.close == b.result.close);
  REQUIRE(a.result.swallow_bytes == b.result.swallow_bytes);
  if (!a.result.close) REQUIRE(a.result.consumed == b.result.consumed);
  if (a.result.status != ParseStatus::kRequest) return;
  REQUIRE(a.request.command == b.request.command);
  REQUIRE(a.request.noreply == b.request.noreply);
  REQUIRE(a.key == b.key);
  REQUIRE(a.keys == b.keys);
  REQUIRE(a.argument == b.argument);
  REQUIRE(a.request.flags == b.request.flags);
  REQUIRE(a.request.exptime == b.request.exptime);
  REQUIRE(a.request.value_bytes == b.request.value_bytes);
  REQUIRE(a.request.cas_unique == b.request.cas_unique);
  REQUIRE(a.request.delta == b.request.delta);
}

// Feeds growing prefixes, each in memory of its own, until there is a result.
Line parse_in_steps(const std::string& input, const std::vector<size_t>& ends) {
  RequestParser parser;
  Request request;
  for (const size_t end : ends) {
    const std::string prefix = input.substr(0, end);
    const ParseResult result = parser.parse(prefix, request);
    if (result.status != ParseStatus::kNeedMore) return copy_of(result, request);
    REQUIRE(result.consumed == 0);
  }
  return copy_of({}, request);
}

const std::vector<std::string> kLines = {
    "get a\r\n",
    "get a b  c \n",
    "gets key:1 key:2\r\n",
    "gat 10 a b\r\n",
    "gats -1 a\r\n",
    "set k 1 2 3\r\n",
    "add k 4294967295 -1 0 noreply\r\n",
    "replace k 0 0 10\n",
    "append k 0 0 10\r\n",
    "prepend k 0 0 2147483645\r\n",
    "cas k 1 2 3 18446744073709551615 noreply\r\n",
    "incr k 5\r\n",
    "decr k 18446744073709551615 noreply\r\n",
    "delete k\r\n",
    "delete k 0 noreply\r\n",
    "touch k 100\r\n",
    "flush_all 10 noreply\r\n",
    "version\r\n",
    "verbosity 1\r\n",
    "stats settings\r\n",
    "quit\r\n",
    "\r\n",
    "nonsense\r\n",
    "set k 0 0\r\n",
    "set k 0 0 -1\r\n",
    "set " + std::string(251, 'k') + " 0 0 7\r\n",
    "POST / HTTP/1.1\r\n",
    "get " + std::string(5000, 'k') + "\r\n",
    std::string(2049, 'x') + "\r\n",
    "\x80\x01\nxxxxxxxxxxxxxxxxxxxxxx",
};

}  // namespace

TEST_CASE("retrieval commands take one or many keys", "[parse]") {
  CHECK(request_of("get a\r\n").keys == std::vector<std::string>{"a"});
  CHECK(request_of("get a b c\r\n").keys == std::vector<std::string>{"a", "b", "c"});
  const Line gets = request_of("gets x y\r\n");
  CHECK(gets.request.command == Command::kGets);
  CHECK(wants_cas(gets.request.command));
  const Line gat = request_of("gat -5 x y\r\n");
  CHECK(gat.request.command == Command::kGat);
  CHECK(gat.request.exptime == -5);
  CHECK(gat.keys == std::vector<std::string>{"x", "y"});
  CHECK(request_of("gats 0 x\r\n").request.command == Command::kGats);
  CHECK(request_of("bget x\r\n").request.command == Command::kGet);
  CHECK(request_of("gat 10\r\n").keys.empty());
}

TEST_CASE("the word noreply is a key where memcached takes it for one", "[parse]") {
  CHECK(request_of("get a noreply\r\n").keys == std::vector<std::string>{"a", "noreply"});
  const Line remove = request_of("delete noreply\r\n");
  CHECK(remove.key == "noreply");
  CHECK_FALSE(remove.request.noreply);
}

TEST_CASE("storage commands carry key, flags, exptime and length", "[parse]") {
  const Line set = request_of("set k 7 -3 12\r\n");
  CHECK(set.request.command == Command::kSet);
  CHECK(set.key == "k");
  CHECK(set.request.flags == 7);
  CHECK(set.request.exptime == -3);
  CHECK(set.request.value_bytes == 12);
  CHECK_FALSE(set.request.noreply);
  CHECK(is_storage(set.request.command));
  CHECK(request_of("add k 0 0 1 noreply\r\n").request.noreply);
  CHECK_FALSE(request_of("set k 0 0 1 junk\r\n").request.noreply);
  CHECK(request_of("replace k 0 0 1\r\n").request.command == Command::kReplace);
  CHECK(request_of("append k 0 0 1\r\n").request.command == Command::kAppend);
  CHECK(request_of("prepend k 0 0 1\r\n").request.command == Command::kPrepend);
  CHECK(request_of("set k +7 +8 +9\r\n").request.value_bytes == 9);
  const Line cas = request_of("cas k 1 2 3 18446744073709551615 noreply\r\n");
  CHECK(cas.request.cas_unique == 18446744073709551615ULL);
  CHECK(cas.request.noreply);
}

TEST_CASE("numbers are taken up to their limits", "[parse]") {
  CHECK(request_of("set k 4294967295 0 1\r\n").request.flags == 4294967295U);
  CHECK(request_of("set k 0 2147483647 1\r\n").request.exptime == 2147483647);
  CHECK(request_of("set k 0 -2147483648 1\r\n").request.exptime == -2147483647 - 1);
  CHECK(request_of("set k 0 0 2147483645\r\n").request.value_bytes == 2147483645U);
  CHECK(request_of("set k 0 0 0\r\n").request.value_bytes == 0);
}

TEST_CASE("the remaining commands are parsed", "[parse]") {
  CHECK(request_of("incr k 18446744073709551615\r\n").request.delta == 18446744073709551615ULL);
  CHECK(request_of("decr k 1 noreply\r\n").request.noreply);
  CHECK(request_of("delete k\r\n").key == "k");
  CHECK_FALSE(request_of("delete k 0\r\n").request.noreply);
  CHECK(request_of("delete k noreply\r\n").request.noreply);
  CHECK(request_of("delete k 0 noreply\r\n").request.noreply);
  CHECK(request_of("touch k 30\r\n").request.exptime == 30);
  CHECK(request_of("flush_all\r\n").request.exptime == 0);
  CHECK(request_of("flush_all noreply\r\n").request.noreply);
  CHECK(request_of("flush_all 9 noreply\r\n").request.exptime == 9);
  CHECK(request_of("version x y\r\n").request.command == Command::kVersion);
  CHECK(request_of("verbosity 1\r\n").request.verbosity == 1);
  CHECK(request_of("stats\r\n").argument.empty());
  CHECK(request_of("stats  detail  on \r\n").argument == "detail  on");
  CHECK(request_of("quit now\r\n").request.command == Command::kQuit);
}

TEST_CASE("lines end in a line feed with or without a carriage return before it", "[parse]") {
  CHECK(request_of("get a\n").keys == std::vector<std::string>{"a"});
  CHECK(request_of("  version  \n").request.command == Command::kVersion);
  // The first of two belongs to the key.
  CHECK(request_of("get a\r\r\n").keys == std::vector<std::string>{"a\r"});
}

TEST_CASE("a line is parsed alike at every split position", "[parse]") {
  for (const std::string& line : kLines) {
    CAPTURE(line);
    const std::string input = line + "get next\r\n";
    const Line whole = parse(input);
    REQUIRE(whole.result.status != ParseStatus::kNeedMore);
    for (size_t split = 1; split < input.size(); ++split) {
      require_equal(parse_in_steps(input, {split, input.size()}), whole);
    }
    std::vector<size_t> every_byte;
    for (size_t end = 1; end <= input.size(); ++end) every_byte.push_back(end);
    require_equal(parse_in_steps(input, every_byte), whole);
  }
}

TEST_CASE("no prefix of a good line gives a result", "[parse]") {
  for (const std::string& line : kLines) {
    if (parse(line).result.close) continue;
    for (size_t end = 0; end < line.size(); ++end) {
      CAPTURE(line, end);
      REQUIRE(parse(line.substr(0, end)).result.status == ParseStatus::kNeedMore);
    }
  }
}

TEST_CASE("pipelined lines are parsed one after the other from any chunks", "[parse]") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::vector<Line> expected;
    std::string stream;
    for (int i = 0; i < 20; ++i) {
      const std::string& line = kLines[random() % kLines.size()];
      const Line parsed = parse(line);
      if (parsed.result.close) continue;
      expected.push_back(parsed);
      stream += line;
    }
    RequestParser parser;
    Request request;
    std::string buffer;
    size_t sent = 0;
    size_t seen = 0;
    while (seen < expected.size()) {
      const ParseResult result = parser.parse(buffer, request);
      if (result.status == ParseStatus::kNeedMore) {
        REQUIRE(sent < stream.size());
        const size_t bytes = std::min<size_t>(1 + random() % 40, stream.size() - sent);
        buffer += stream.substr(sent, bytes);
        sent += bytes;
        continue;
      }
      require_equal(copy_of(result, request), expected[seen]);
      buffer.erase(0, result.consumed);
      ++seen;
    }
    REQUIRE(buffer.empty());
  }
}

TEST_CASE("keys view the input without a copy", "[parse]") {
  const std::string input = "get first second\r\n";
  RequestParser parser;
  Request request;
  REQUIRE(parser.parse(input, request).status == ParseStatus::kRequest);
  CHECK(request.keys[0].data() == input.data() + 4);
  CHECK(request.keys[1].data() == input.data() + 10);
}

TEST_CASE("any bytes give a result that stays inside the input", "[parse]") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::string alphabet = "setgacdilr 0129-+\r\n\t\x80noreply";
  for (int round = 0; round < 20000; ++round) {
    std::string input = random() % 2 == 0 ? kLines[random() % kLines.size()].substr(0, 300) : "";
    for (size_t i = random() % 30; i > 0; --i) {
      const size_t at = random() % (input.size() + 1);
      input.insert(at, 1, alphabet[random() % alphabet.size()]);
    }
    const Line line = parse(input);
    REQUIRE(line.result.consumed <= input.size());
    REQUIRE((line.result.status == ParseStatus::kNeedMore) == (line.result.consumed == 0));
    if (line.result.status == ParseStatus::kRequest) {
      for (const std::string& key : line.keys) REQUIRE(is_valid_key(key));
      if (!line.key.empty()) REQUIRE(is_valid_key(line.key));
    }
  }
}

TEST_CASE("of an exptime of up to 64 bits the lower 32 count, as in memcached", "[parse]") {
  CHECK(request_of("touch k 2147483648\r\n").request.exptime == -2147483648);
  CHECK(request_of("set k 0 4294967295 1\r\n").request.exptime == -1);
  CHECK(request_of("gat 4294967296 k\r\n").request.exptime == 0);
  CHECK(request_of("touch k -4294967295\r\n").request.exptime == 1);
  CHECK(request_of("touch k 9223372036854775807\r\n").request.exptime == -1);
}

TEST_CASE("what tunes memcached's memory is taken, and its dumps are commands of their own",
          "[parse]") {
  for (const char* line :
       {"lru tune 10 25 0.1 2.0", "lru mode flat", "lru temp_ttl -1", "lru_crawler enable",
        "lru_crawler disable", "lru_crawler sleep 100", "lru_crawler tocrawl 0",
        "lru_crawler crawl all", "slabs automove 2", "slabs automove ratio 0.8"}) {
    const Line taken = request_of(line + std::string("\r\n"));
    CHECK(std::string(line).starts_with(name(taken.request.command)));
  }
  CHECK(request_of("slabs automove 0 noreply\r\n").request.noreply);
  for (const char* which : {"all", "hash", "1"}) {
    const Line dump = request_of("lru_crawler metadump " + std::string(which) + "\r\n");
    CHECK(dump.request.command == Command::kMetadump);
    CHECK(dump.request.limit == 0);
  }
  const Line dump = request_of("stats cachedump 1 7\r\n");
  CHECK(dump.request.command == Command::kCachedump);
  CHECK(dump.request.limit == 7);
  CHECK(request_of("stats cachedump 2 7\r\n").request.command == Command::kStats);
}
