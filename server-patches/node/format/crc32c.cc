#include "server-patches/node/format/crc32c.h"

#include <isa-l/crc.h>

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

}  // namespace

uint32_t crc32c(ByteView bytes, uint32_t crc) {
  // ISA-L leaves the inversions before and after to the caller, and only reads the buffer. Nothing
  // here is longer than a frame, so an int counts it.
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~crc);
}

// The checksum of A followed by B is that of A times x^(bits of B), plus that of B: the inversions
// at both ends cancel out.
uint32_t crc32c_joined(uint32_t a, uint32_t b, uint32_t shift) { return multiply(shift, a) ^ b; }

uint32_t crc32c_shift(uint64_t bytes) { return power_of_x(8 * bytes); }

// Without the inversions a checksum is linear, so it changes by that of the delta, times
// x^(bits behind it). That one is begun, and ended, with its inversions undone.
uint32_t crc32c_changed(uint32_t crc, ByteView delta, uint64_t bytes_behind) {
  return crc32c_joined(~crc32c(delta, ~uint32_t{0}), crc, crc32c_shift(bytes_behind));
}

}  // namespace elastripe::node
