#include "proxy/base/hash.h"

#include <xxhash.h>

namespace elastripe {

uint64_t hash64(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace elastripe
