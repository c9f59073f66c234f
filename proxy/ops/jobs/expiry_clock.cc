#include "proxy/ops/jobs/expiry_clock.h"

#include <cstdlib>

#include "proxy/base/log.h"

namespace elastripe::jobs {

using std::chrono::milliseconds;

ExpiryClock::Times ExpiryClock::read() const {
  return {clock_.now(), static_cast<int64_t>(clock_.unix_ms())};
}

std::optional<uint32_t> ExpiryClock::look() {
  const Times now = read();
  const auto monotonic = now.monotonic - believed_.monotonic;
  const auto step = milliseconds(now.unix_ms - believed_.unix_ms) -
                    std::chrono::duration_cast<milliseconds>(monotonic);
  if (std::chrono::abs(step) > kMaxStep) {
    if (!disagree_since_) {
      disagree_since_ = now.monotonic;
      log_warning("the wall clock was set by {} s: nothing that expires is collected for {} min",
                  std::chrono::duration_cast<std::chrono::seconds>(step).count(),
                  std::chrono::duration_cast<std::chrono::minutes>(kDistrust).count());
    }
    if (now.monotonic - *disagree_since_ < kDistrust) return std::nullopt;
  }
  disagree_since_.reset();
  believed_ = now;
  return static_cast<uint32_t>(now.unix_ms / 1000) - kMargin_s;
}

}  // namespace elastripe::jobs
