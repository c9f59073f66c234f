// Checksums of shard pages and shards (docs/node-protocol.md, "Shards").
#pragma once

#include <vector>

#include "server-patches/node/format/crc32c.h"
#include "server-patches/node/format/shard.h"

namespace elastripe::node {

inline size_t page_count(size_t payload_bytes) {
  return (payload_bytes + kPageBytes - 1) / kPageBytes;
}

// One a page; the last page may be short.
std::vector<uint32_t> page_checksums(ByteView payload);

// crc32c() of the payload of so many bytes that has these page checksums, without its bytes.
uint32_t crc32c_of_pages(const std::vector<uint32_t>& checksums, size_t payload_bytes);

}  // namespace elastripe::node
