// CRC32C of records, shard pages and shards (docs/node-protocol.md, "Records", "Shards").
#pragma once

#include "server-patches/node/format/wire.h"

namespace elastripe::node {

// Castagnoli, as in RFC 3720: "123456789" gives 0xe3069283. Of `bytes` appended to bytes whose
// checksum is `crc`: crc32c(b, crc32c(a)) is that of a followed by b.
uint32_t crc32c(ByteView bytes, uint32_t crc = 0);

}  // namespace elastripe::node
