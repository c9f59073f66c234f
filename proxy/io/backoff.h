// Backoff: how long to leave a node alone that could not be connected to, the longer the more often
// that was so. By chance up to half less, so that the threads of all proxies do not come back
// together.
#pragma once

#include <algorithm>
#include <utility>

#include "proxy/async/clock.h"

namespace elastripe {

class Backoff {
 public:
  Backoff(Duration least, Duration most) : least_(least), most_(most), next_(least) {}

  Duration next(Random& random) {
    const Duration pause = std::exchange(next_, std::min(2 * next_, most_));
    const auto by_chance = static_cast<uint64_t>(pause.count() / 2) + 1;
    return pause - Duration(static_cast<int64_t>(random.next() % by_chance));
  }
  void reset() { next_ = least_; }

 private:
  const Duration least_;
  const Duration most_;
  Duration next_;
};

}  // namespace elastripe
