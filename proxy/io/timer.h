// Timers: a heap of deadlines, cheap to arm and to cancel, since nearly all are cancelled. The loop
// fires it behind all socket events: a socket that turns readable in the turn in which a deadline
// passes is served first.
#pragma once

#include <optional>
#include <vector>

#include "proxy/async/clock.h"

namespace elastripe {

class Timers;

// Embedded in what waits. Loop thread only. Cancelled when destroyed.
class Timer {
 public:
  Timer() = default;
  virtual ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  bool armed() const { return owner_ != nullptr; }
  TimePoint when() const { return when_; }
  void cancel();

 protected:
  // Not armed any more when this is called; may arm or destroy any timer, itself included.
  virtual void on_timer() = 0;

 private:
  friend class Timers;
  Timers* owner_ = nullptr;
  size_t index_ = 0;
  TimePoint when_;
};

class Timers {
 public:
  ~Timers();

  // Arms, or moves an armed timer.
  void arm(Timer& timer, TimePoint when);
  // The earliest deadline.
  std::optional<TimePoint> next() const;
  // Fires what is due, earliest first. Timers armed meanwhile wait for the next call.
  void fire(TimePoint now);

 private:
  friend class Timer;
  void remove(Timer& timer);
  void place(Timer* timer, size_t index);
  void sift_up(size_t index);
  void sift_down(size_t index);

  std::vector<Timer*> heap_;
};

}  // namespace elastripe
