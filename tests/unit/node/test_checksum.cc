#include <catch2/catch.hpp>
#include <random>

#include "server-patches/node/engine/checksum.h"

namespace elastripe::node {

TEST_CASE("crc32c is the Castagnoli checksum of RFC 3720") {
  REQUIRE(crc32c(as_view("123456789")) == 0xe3069283);
  REQUIRE(crc32c({}) == 0);
  REQUIRE(crc32c(as_view(std::string(32, '\0'))) == 0x8a9136aa);
}

TEST_CASE("there is one checksum a page, the last of a short page") {
  const std::string bytes(2 * kPageBytes + 1, 'x');
  const auto checksums = page_checksums(as_view(bytes));
  REQUIRE(checksums.size() == 3);
  REQUIRE(checksums[0] == checksums[1]);
  REQUIRE(checksums[2] == crc32c(as_view("x")));
  REQUIRE(page_checksums({}).empty());
}

TEST_CASE("page checksums together are the checksum of the whole") {
  std::mt19937_64 random(7);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{kPageBytes} - 1, size_t{kPageBytes},
                             size_t{kPageBytes} + 1, size_t{5 * kPageBytes} + 1234}) {
    std::string payload(bytes, '\0');
    for (char& byte : payload) byte = static_cast<char>(random());
    const ByteView view = as_view(payload);
    REQUIRE(crc32c_of_pages(page_checksums(view), bytes) == crc32c(view));
  }
}

TEST_CASE("the checksum after a change follows from the one before and the change") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto random_text = [&](size_t bytes) {
    std::string text(bytes, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    return text;
  };
  for (const size_t bytes : {1u, 2u, 100u, 4096u, 100'000u}) {
    std::string text = random_text(bytes);
    uint32_t crc = crc32c(as_view(text));
    for (int change = 0; change < 50; ++change) {
      const size_t offset = random() % (bytes + 1);
      const size_t length = random() % 4 == 0 ? bytes - offset : random() % (bytes - offset + 1);
      const std::string delta = random_text(length);
      for (size_t i = 0; i < length; ++i)
        text[offset + i] = static_cast<char>(text[offset + i] ^ delta[i]);
      crc = crc32c_changed(crc, as_view(delta), bytes - offset - length);
      REQUIRE(crc == crc32c(as_view(text)));
    }
  }
  REQUIRE(crc32c_changed(0, {}, 0) == 0);
}

}  // namespace elastripe::node
