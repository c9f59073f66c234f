#include "server-patches/node/engine/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace elastripe::node {

uint32_t crc32c(ByteView bytes) {
  // ISA-L leaves the inversions before and after to the caller, and only reads the buffer.
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~0u);
}

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

}  // namespace elastripe::node
