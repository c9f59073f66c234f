#include "server-patches/node/engine/checksum.h"

#include <algorithm>

namespace elastripe::node {

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

uint32_t crc32c_of_pages(const std::vector<uint32_t>& checksums, size_t payload_bytes) {
  static const uint32_t page_shift = crc32c_shift(kPageBytes);
  uint32_t crc = 0;
  for (const uint32_t page : checksums) {
    const bool is_whole = payload_bytes >= kPageBytes;
    crc = crc32c_joined(crc, page, is_whole ? page_shift : crc32c_shift(payload_bytes));
    payload_bytes -= is_whole ? kPageBytes : payload_bytes;
  }
  return crc;
}

}  // namespace elastripe::node
