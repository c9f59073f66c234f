#include <catch2/catch.hpp>

#include "proxy/memcache/binary.h"
#include "proxy/memcache/parse.h"
#include "proxy/memcache/replies.h"

using namespace elastripe::memcache;

namespace {
// A get of the key "Hello" with the opaque "wxyz".
const std::string kGet("\x80\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x05wxyz\0\0\0\0\0\0\0\0Hello",
                       29);
}  // namespace

TEST_CASE("a binary request is answered as memcached answers an unknown command", "[binary]") {
  std::string request = kGet;
  request[1] = '\x21';  // an opcode
  const std::string response = refuse_binary(request);
  CHECK(response.substr(0, 8) == std::string("\x81\x21\x00\x00\x00\x00\x00\x81", 8));
  const size_t body_bytes = response.size() - kBinaryHeaderBytes;
  CHECK(response.substr(8, 4) == std::string({0, 0, 0, static_cast<char>(body_bytes)}));
  CHECK(response.substr(12, 12) == std::string("wxyz\0\0\0\0\0\0\0\0", 12));
  CHECK(response.substr(kBinaryHeaderBytes) ==
        "The binary protocol is not supported: use the text protocol");
}

TEST_CASE("a binary request is refused once its header is there, and the connection with it",
          "[binary]") {
  RequestParser parser;
  Request request;
  for (size_t bytes = 1; bytes < kBinaryHeaderBytes; ++bytes) {
    CAPTURE(bytes);
    REQUIRE(parser.parse(kGet.substr(0, bytes), request).status == ParseStatus::kNeedMore);
  }
  const ParseResult result = parser.parse(kGet, request);
  CHECK(result.status == ParseStatus::kInvalid);
  CHECK(result.close);
  CHECK(result.consumed == kGet.size());
  CHECK(result.refusal == replies::kBinaryProtocol);
  CHECK(request.binary_header == kGet.substr(0, kBinaryHeaderBytes));
}
