#include "proxy/memcache/exptime.h"

#include <algorithm>
#include <limits>

namespace elastripe::memcache {

uint32_t absolute_exptime(int64_t exptime, int64_t now_s) {
  if (exptime == 0) return 0;
  if (exptime < 0) return 1;
  if (exptime > kMaxRelativeExptime_s) return static_cast<uint32_t>(exptime);
  constexpr int64_t kLast = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::clamp<int64_t>(now_s + exptime, 1, kLast));
}

}  // namespace elastripe::memcache
