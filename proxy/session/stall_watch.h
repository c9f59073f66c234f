// StallWatch: whether a client does in time what a session waits for, in one direction.
#pragma once

#include <cstdint>

#include "proxy/async/clock.h"

namespace elastripe {

// The client has done enough when it was waited for no longer, or has moved `enough` bytes; then a
// new period begins.
class StallWatch {
 public:
  // `waits`: the session waits for the client now. `moved`: bytes since the start.
  void update(TimePoint now, bool waits, uint64_t moved, uint64_t enough) {
    const bool begins = waits && !waits_;
    waits_ = waits;
    if (!waits || begins || moved - moved_before_ >= enough) {
      since_ = now;
      moved_before_ = moved;
    }
  }
  // What is waited for from now on is something new.
  void restart() { waits_ = false; }

  // When a client that has so much time is late; never while it is not waited for.
  TimePoint late_at(Duration limit) const { return waits_ ? since_ + limit : TimePoint::max(); }

 private:
  bool waits_ = false;
  TimePoint since_;
  uint64_t moved_before_ = 0;
};

}  // namespace elastripe
