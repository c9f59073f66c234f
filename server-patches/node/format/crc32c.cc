#include "server-patches/node/format/crc32c.h"

#include <isa-l/crc.h>

namespace elastripe::node {

uint32_t crc32c(ByteView bytes, uint32_t crc) {
  // ISA-L leaves the inversions before and after to the caller, and only reads the buffer. Nothing
  // here is longer than a frame, so an int counts it.
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~crc);
}

}  // namespace elastripe::node
