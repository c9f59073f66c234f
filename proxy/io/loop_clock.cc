#include "proxy/io/loop_clock.h"

#include "proxy/base/check.h"

namespace elastripe {

// Lies in the frame of sleep_until.
struct LoopClock::Sleep : Timer {
  Sleep(LoopClock& owner, TimePoint until)
      : clock(owner), deadline(until), next(std::exchange(owner.sleeps_, this)) {
    if (next != nullptr) next->previous = this;
  }
  ~Sleep() override {
    (previous != nullptr ? previous->next : clock.sleeps_) = next;
    if (next != nullptr) next->previous = previous;
  }
  void on_timer() override { waiter.resume(); }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    waiter = handle;
    clock.loop_.arm(*this, deadline);
  }
  bool await_resume() const noexcept { return !cancelled; }

  LoopClock& clock;
  const TimePoint deadline;
  bool cancelled = false;
  std::coroutine_handle<> waiter;
  Sleep* previous = nullptr;
  Sleep* next;
};

LoopClock::~LoopClock() { CHECK(sleeps_ == nullptr, "a clock was destroyed with sleepers"); }

uint64_t LoopClock::unix_ms() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

Task<bool> LoopClock::sleep_until(TimePoint when) {
  if (cancelled_) co_return false;
  Sleep sleep(*this, when);
  co_return co_await sleep;
}

void LoopClock::cancel_all() {
  cancelled_ = true;
  while (sleeps_ != nullptr) {
    Sleep& sleep = *sleeps_;
    sleep.cancel();
    sleep.cancelled = true;
    sleep.waiter.resume();  // unlinks itself
  }
}

}  // namespace elastripe
