// CRC32C (Castagnoli, as in iSCSI, RFC 3720): the checksum of records, segments and frames.
#pragma once

#include <cstdint>

#include "proxy/base/bytes.h"

namespace elastripe {

// The checksum of `bytes` appended to bytes whose checksum is `crc`; 0 starts.
// crc32c(b, crc32c(a)) == crc32c(a followed by b).
uint32_t crc32c(ByteView bytes, uint32_t crc = 0);

}  // namespace elastripe
