// The hash of keys (XXH3, 64 bit): the same on every machine and in every version, since it decides
// which partition a key belongs to.
#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/base/bytes.h"

namespace elastripe {

uint64_t hash64(ByteView bytes);
inline uint64_t hash64(std::string_view text) { return hash64(as_bytes(text)); }

}  // namespace elastripe
