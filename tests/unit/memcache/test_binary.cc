#include <catch2/catch.hpp>

#include "proxy/memcache/binary.h"
#include "proxy/memcache/replies.h"

using namespace elastripe::memcache;

namespace {

constexpr uint32_t kOpaque = 0x7778797a;

// With the opaque "wxyz".
std::string request_of(int opcode, std::string_view extras = {}, std::string_view key = {},
                       std::string_view value = {}, uint64_t cas = 0) {
  std::string request("\x80");
  request += static_cast<char>(opcode);
  request += big_endian(key.size(), 2);
  request += static_cast<char>(extras.size());
  request += std::string(3, '\0');
  request += big_endian(extras.size() + key.size() + value.size(), 4);
  request += "wxyz";
  request += big_endian(cas, 8);
  return request.append(extras).append(key).append(value);
}

struct Parsed {
  explicit Parsed(std::string bytes) : input(std::move(bytes)) {
    RequestParser parser;
    result = parser.parse(input, request);
  }

  const std::string input;
  Request request;
  ParseResult result;
};

const std::string kStoreExtras("\0\0\0\x07\0\0\0\x1e", 8);
const std::string kExptime("\0\0\0\x1e", 4);
const std::string kCounterExtras = big_endian(3, 8) + big_endian(4, 8) + big_endian(30, 4);

}  // namespace

TEST_CASE("a request is its command, key, extras and cas", "[binary]") {
  const Parsed set(request_of(0x01, kStoreExtras, "Hello", "World", 9));
  REQUIRE(set.result.status == ParseStatus::kRequest);
  CHECK(set.result.consumed == set.input.size() - 5);
  CHECK(set.request.command == Command::kSet);
  CHECK(set.request.key == "Hello");
  CHECK(set.request.flags == 7);
  CHECK(set.request.exptime == 30);
  CHECK(set.request.value_bytes == 5);
  CHECK(set.request.cas_unique == 9);
  REQUIRE(set.request.binary);
  CHECK(set.request.binary->opcode == 0x01);
  CHECK(set.request.binary->opaque == kOpaque);
  const Parsed get(request_of(0x09, "", "Hello"));
  CHECK(get.request.command == Command::kGet);
  CHECK(get.request.keys == std::vector<std::string_view>{"Hello"});
  CHECK(Parsed(request_of(0x1d, kExptime, "k")).request.exptime == 30);
  const Parsed counter(request_of(0x05, kCounterExtras, "n"));
  CHECK(counter.request.command == Command::kIncr);
  CHECK(counter.request.delta == 3);
  CHECK(counter.request.initial == 4);
  CHECK(counter.request.creates == 30);
  const std::string makes_none = kCounterExtras.substr(0, 16) + big_endian(UINT32_MAX, 4);
  CHECK_FALSE(Parsed(request_of(0x06, makes_none, "n")).request.creates);
  CHECK(Parsed(request_of(0x10, "", "items")).request.argument == "items");
  CHECK(Parsed(request_of(0x20, "")).request.command == Command::kSaslMechanisms);
  const Parsed login(request_of(0x21, "", "PLAIN", std::string("\0a\0b", 4)));
  CHECK(login.request.command == Command::kSaslAuth);
  CHECK(login.request.key == "PLAIN");
  CHECK(login.request.value_bytes == 4);
  CHECK(Parsed(request_of(0x08, kExptime)).request.exptime == 30);
  const std::string binary_key("\0\n \xff", 4);
  CHECK(Parsed(request_of(0x04, "", binary_key)).request.key == binary_key);
}

TEST_CASE("a request is parsed once its head is there, wherever it is cut", "[binary]") {
  const std::string input = request_of(0x01, kStoreExtras, "Hello", "World");
  RequestParser parser;
  Request request;
  for (size_t bytes = 1; bytes < input.size() - 5; ++bytes) {
    CAPTURE(bytes);
    REQUIRE(parser.parse(input.substr(0, bytes), request).status == ParseStatus::kNeedMore);
  }
  CHECK(parser.parse(input.substr(0, input.size() - 5), request).status == ParseStatus::kRequest);
}

TEST_CASE("all opcodes of memcached but those of its own are known", "[binary]") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    CAPTURE(opcode);
    const bool is_known =
        opcode <= 0x1a || (opcode >= 0x1c && opcode <= 0x1e) || (opcode >= 0x20 && opcode <= 0x24);
    const Parsed parsed(request_of(opcode, "", "", "body"));
    REQUIRE(parsed.result.status == ParseStatus::kInvalid);
    CHECK((parsed.result.refusal == replies::kUnknownOpcode) == !is_known);
    CHECK(parsed.result.close == is_known);
    CHECK(parsed.result.swallow_bytes == (is_known ? 0U : 4U));
    REQUIRE(parsed.request.binary);
    CHECK(parsed.request.binary->opcode == opcode);
  }
}

TEST_CASE("what has not the parts of its command is refused, and the connection closed",
          "[binary]") {
  for (const std::string& input :
       {request_of(0x00), request_of(0x00, "", "k", "v"), request_of(0x00, kExptime, "k"),
        request_of(0x01, "", "k", "v"), request_of(0x01, kStoreExtras, "", "v"),
        request_of(0x04, kExptime, "k"), request_of(0x05, kExptime, "k"), request_of(0x07, "", "k"),
        request_of(0x08, "ab"), request_of(0x0a, "", "k"), request_of(0x0b, "", "", "v"),
        request_of(0x0e, kExptime, "k", "v"), request_of(0x1c, "", "k"),
        request_of(0x00, "", std::string(251, 'k'))}) {
    const Parsed parsed(input);
    CAPTURE(input);
    CHECK(parsed.result.refusal == replies::kInvalidArguments);
    CHECK(parsed.result.close);
  }
  std::string lies = request_of(0x00, "", "Hello");
  lies[11] = 4;  // bytes of the body
  CHECK(Parsed(lies).result.refusal == replies::kUnknownOpcode);
  CHECK(Parsed(lies).result.close);
}

TEST_CASE("a response has the opaque, the status, the cas, and its parts", "[binary]") {
  Output output;
  compose_binary(output, {.to = {0x0c, kOpaque},
                          .status = BinaryStatus::kNotFound,
                          .cas = 258,
                          .extras = "ext",
                          .key = "key",
                          .value_bytes = 300});
  CHECK(output.flatten() ==
        std::string("\x81\x0c\0\x03\x03\0\0\x01\0\0\x01\x32wxyz\0\0\0\0\0\0\x01\x02", 24) +
            "extkey");
}

TEST_CASE("quiet opcodes are those with a Q", "[binary]") {
  int quiet = 0;
  for (int opcode = 0; opcode < 256; ++opcode) {
    quiet += is_quiet(static_cast<BinaryOpcode>(opcode)) ? 1 : 0;
  }
  CHECK(quiet == 14);
}
