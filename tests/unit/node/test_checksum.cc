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

}  // namespace elastripe::node
