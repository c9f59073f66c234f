#include "proxy/ops/jobs/expiry_clock.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "proxy/base/log.h"
#include "server-patches/node/format/mutant.h"

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
  auto others = others_ ? others_() : std::optional(std::vector<int64_t>());
  if (!others) return std::nullopt;
  return static_cast<uint32_t>(agree(now.unix_ms, std::move(*others)) / 1000);
}

int64_t ExpiryClock::agree(int64_t own_ms, std::vector<int64_t> clocks) {
  clocks.push_back(own_ms);
  const auto middle = clocks.begin() + static_cast<std::ptrdiff_t>((clocks.size() - 1) / 2);
  std::ranges::nth_element(clocks, middle);
  const int64_t lead_ms = own_ms - *middle;
  const bool is_ahead = lead_ms > 1000 * int64_t{kMargin_s};
  // A lead that comes and goes at the margin is told once.
  if (lead_ms <= 1000 * int64_t{kMargin_s} / 2) has_warned_ = false;
  if (is_ahead && !std::exchange(has_warned_, true)) {
    log_warning(
        "the wall clock is {} s ahead of those of other proxies: what expires is collected "
        "by theirs",
        lead_ms / 1000);
  }
  return is_ahead && !mutant(Mutant::kTrustOwnClock) ? *middle : own_ms;
}

}  // namespace elastripe::jobs
