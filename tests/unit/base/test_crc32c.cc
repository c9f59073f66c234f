#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "proxy/base/crc32c.h"

using elastripe::as_bytes;
using elastripe::ByteView;
using elastripe::crc32c;

namespace {

// Bit by bit from the reflected polynomial.
uint32_t reference(ByteView bytes) {
  uint32_t crc = ~0U;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("crc32c gives the vectors of RFC 3720", "[crc32c]") {
  std::array<std::byte, 32> bytes{};
  CHECK(crc32c(bytes) == 0x8a9136aa);
  bytes.fill(std::byte{0xff});
  CHECK(crc32c(bytes) == 0x62a8ab43);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(crc32c(bytes) == 0x46dd794e);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(31 - i);
  CHECK(crc32c(bytes) == 0x113fdb5c);
  CHECK(crc32c(as_bytes("123456789")) == 0xe3069283);
  CHECK(crc32c({}) == 0);
}

TEST_CASE("crc32c equals the bitwise definition at every length, offset and split", "[crc32c]") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(600);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t length = 0; length < 520; ++length) {
    const ByteView view = ByteView(bytes).subspan(length % 17, length);
    const uint32_t expected = reference(view);
    REQUIRE(crc32c(view) == expected);
    const size_t split = random() % (length + 1);
    REQUIRE(crc32c(view.subspan(split), crc32c(view.first(split))) == expected);
  }
}
