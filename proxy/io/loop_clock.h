// LoopClock: the Clock of a loop.
#pragma once

#include "proxy/async/clock.h"
#include "proxy/io/loop.h"

namespace elastripe {

class LoopClock : public Clock {
 public:
  explicit LoopClock(Loop& loop) : loop_(loop) {}
  ~LoopClock() override;

  TimePoint now() const override { return loop_.now(); }
  TimePoint turn_time() const override { return loop_.turn_time(); }
  uint64_t unix_ms() const override;
  Task<bool> sleep_until(TimePoint when) override;

  // Ends every sleep, now and from now on, with false.
  void cancel_all();

 private:
  struct Sleep;

  Loop& loop_;
  bool cancelled_ = false;
  Sleep* sleeps_ = nullptr;  // doubly linked
};

}  // namespace elastripe
