#include "proxy/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace elastripe {

uint32_t crc32c(ByteView bytes, uint32_t crc) {
  // ISA-L counts in int, and leaves the inversions at both ends to its caller.
  constexpr size_t kStep = size_t{1} << 30;
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const ByteView part = bytes.first(std::min(bytes.size(), kStep));
    // The parameter lacks a const, the function only reads.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(part.data()));
    state = crc32_iscsi(data, static_cast<int>(part.size()), state);
    bytes = bytes.subspan(part.size());
  }
  return ~state;
}

}  // namespace elastripe
