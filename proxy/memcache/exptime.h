// The meaning of exptime in memcached's protocol.
#pragma once

#include <cstdint>

namespace elastripe::memcache {

inline constexpr int64_t kMaxRelativeExptime_s = int64_t{60} * 60 * 24 * 30;

// Unix seconds at which an item expires, 0 for never, out of the exptime of a command at `now_s`:
// up to 30 days it counts from now, beyond it is a unix time, and a negative one is in the past
// (the result is 1). Fits into 32 bits. An item is expired when its time is not 0 and <= now.
uint32_t absolute_exptime(int64_t exptime, int64_t now_s);

}  // namespace elastripe::memcache
