#include <catch2/catch.hpp>

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

}  // namespace elastripe::node
