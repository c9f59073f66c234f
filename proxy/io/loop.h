// Loop: one thread's event loop over libevent. A turn serves what has become ready; what was
// written during it leaves once, at its end.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "proxy/io/timer.h"

struct event;
struct event_base;

namespace elastripe {

class Loop;

// Something to do at the end of the turn, once however often it was asked for: flushing a socket.
// Loop thread only; forgotten when destroyed.
class TurnEnd {
 public:
  explicit TurnEnd(Loop& loop) : loop_(loop) {}
  virtual ~TurnEnd();
  TurnEnd(const TurnEnd&) = delete;
  TurnEnd& operator=(const TurnEnd&) = delete;

  void request_turn_end();

 protected:
  // May ask for itself again: then it runs once more before the loop waits.
  virtual void on_turn_end() = 0;

 private:
  friend class Loop;
  Loop& loop_;
  bool requested_ = false;
};

// Everything but post() and stop() belongs to the thread that runs it (or made it, before run()).
class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Until stop().
  void run();
  void stop();                           // any thread
  void post(std::function<void()> job);  // any thread; runs on the loop's thread, in order

  TimePoint now() const { return std::chrono::steady_clock::now(); }
  // When somebody first asked for it in this turn (Clock::turn_time).
  TimePoint turn_time() {
    if (!turn_time_.has_value()) turn_time_ = now();
    return *turn_time_;
  }
  void arm(Timer& timer, TimePoint when);
  event_base* base() { return base_; }

 private:
  friend class TurnEnd;
  static void on_wake(int fd, short what, void* self);
  static void on_alarm(int fd, short what, void* self);
  void wake_at(TimePoint when);
  void fire_timers();
  void end_turn();

  event_base* base_;
  event* wake_event_;
  event* alarm_event_;
  int wake_fd_;
  int alarm_fd_;
  bool stopping_ = false;
  Timers timers_;
  bool timers_are_due_ = false;            // they fire in this turn, behind the sockets
  TimePoint alarm_at_ = TimePoint::max();  // of alarm_fd_
  std::optional<TimePoint> turn_time_;
  std::vector<TurnEnd*> turn_ends_;  // null: forgotten
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

}  // namespace elastripe
