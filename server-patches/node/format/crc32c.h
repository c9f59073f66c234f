// CRC32C of records, shard pages and shards (docs/node-protocol.md, "Records", "Shards").
#pragma once

#include "server-patches/node/format/wire.h"

namespace elastripe::node {

// Castagnoli, as in RFC 3720: "123456789" gives 0xe3069283. Of `bytes` appended to bytes whose
// checksum is `crc`: crc32c(b, crc32c(a)) is that of a followed by b.
uint32_t crc32c(ByteView bytes, uint32_t crc = 0);

// The same out of two checksums, without the bytes: of what `a` is the checksum of, followed by
// what `b` is. `shift` is crc32c_shift() of the number of bytes of the latter.
uint32_t crc32c_joined(uint32_t a, uint32_t b, uint32_t shift);
uint32_t crc32c_shift(uint64_t bytes);

// The same after some of the bytes have changed: `delta` is old XOR new of bytes that lie together,
// and `bytes_behind` is how many follow them. Neither those nor the ones before are needed.
uint32_t crc32c_changed(uint32_t crc, ByteView delta, uint64_t bytes_behind);

}  // namespace elastripe::node
