#include "server-patches/node/engine/checksum.h"

#include <algorithm>

namespace elastripe::node {

namespace {

// Polynomials over GF(2) modulo Castagnoli's, as crc32c() writes remainders: the highest bit is the
// coefficient of x^0.
constexpr uint32_t kOne = uint32_t{1} << 31;
constexpr uint32_t kModulus = 0x82f63b78;  // without its x^32

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & kOne) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kModulus : 0);  // times x
  }
  return product;
}

constexpr uint32_t power_of_x(uint64_t exponent) {
  uint32_t power = kOne;
  for (uint32_t square = kOne >> 1; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

constexpr uint32_t kPageShift = power_of_x(uint64_t{8} * kPageBytes);

}  // namespace

std::vector<uint32_t> page_checksums(ByteView payload) {
  std::vector<uint32_t> checksums;
  checksums.reserve(page_count(payload.size()));
  while (!payload.empty()) {
    const size_t bytes = std::min<size_t>(payload.size(), kPageBytes);
    checksums.push_back(crc32c(payload.first(bytes)));
    payload = payload.subspan(bytes);
  }
  return checksums;
}

// The checksum of A followed by B is that of A times x^(bits of B), plus that of B: the inversions
// at both ends cancel out.
uint32_t crc32c_of_pages(const std::vector<uint32_t>& checksums, size_t payload_bytes) {
  uint32_t crc = 0;
  for (const uint32_t page : checksums) {
    const bool is_whole = payload_bytes >= kPageBytes;
    crc = multiply(is_whole ? kPageShift : power_of_x(8 * payload_bytes), crc) ^ page;
    payload_bytes -= is_whole ? kPageBytes : payload_bytes;
  }
  return crc;
}

}  // namespace elastripe::node
