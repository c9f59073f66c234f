#include "proxy/io/loop.h"

#include <event2/event.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "proxy/base/check.h"

namespace elastripe {

TurnEnd::~TurnEnd() {
  if (requested_) std::ranges::replace(loop_.turn_ends_, this, nullptr);
}

void TurnEnd::request_turn_end() {
  if (requested_) return;
  requested_ = true;
  loop_.turn_ends_.push_back(this);
}

Loop::Loop() {
  // Only the eventfd crosses threads, so libevent needs no lock of its own.
  event_config* config = event_config_new();
  CHECK(config != nullptr);
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
  // Else libevent looks at a clock that is up to 4 ms behind, and timers come as late: those of the
  // next turn, too, which flows wait for between slices of work.
  event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
  base_ = event_base_new_with_config(config);
  event_config_free(config);
  CHECK(base_ != nullptr, "no event base");
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  CHECK(wake_fd_ >= 0, "no eventfd");
  wake_event_ = event_new(base_, wake_fd_, EV_READ | EV_PERSIST, &Loop::on_wake, this);
  time_event_ = event_new(base_, -1, 0, &Loop::on_time, this);
  CHECK(wake_event_ != nullptr && time_event_ != nullptr);
  CHECK(event_add(wake_event_, nullptr) == 0);
}

Loop::~Loop() {
  event_free(wake_event_);
  event_free(time_event_);
  event_base_free(base_);
  close(wake_fd_);
}

void Loop::run() {
  stopping_ = false;
  end_turn();
  while (!stopping_) {
    event_base_loop(base_, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY);
    end_turn();
  }
}

void Loop::stop() {
  post([this] { stopping_ = true; });
}

void Loop::post(std::function<void()> job) {
  bool first;
  {
    const std::scoped_lock lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(job));
  }
  if (!first) return;
  const uint64_t one = 1;
  CHECK(write(wake_fd_, &one, sizeof one) == sizeof one);
}

void Loop::arm(Timer& timer, TimePoint when) {
  timers_.arm(timer, when);
  if (when < event_armed_for_) arm_event();
}

void Loop::on_wake(int fd, short, void* self) {
  auto& loop = *static_cast<Loop*>(self);
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(fd, &count, sizeof count);
  std::vector<std::function<void()>> jobs;
  {
    const std::scoped_lock lock(loop.mutex_);
    jobs.swap(loop.posted_);
  }
  for (auto& job : jobs) job();
}

void Loop::on_time(int, short, void* self) {
  auto& loop = *static_cast<Loop*>(self);
  loop.event_armed_for_ = TimePoint::max();
  loop.timers_.fire(loop.now());
  loop.arm_event();
}

// The event is not moved when the timer it was armed for is cancelled: it then fires once for
// nothing, which is cheaper than moving it with every call to a node.
void Loop::arm_event() {
  const auto next = timers_.next();
  if (!next.has_value() || *next >= event_armed_for_) return;
  event_armed_for_ = *next;
  const auto wait = std::max(*next - now(), Duration::zero());
  // Rounded up, so that a timer is due when its event fires.
  const auto wait_us = std::chrono::ceil<std::chrono::microseconds>(wait).count();
  const timeval after{.tv_sec = static_cast<time_t>(wait_us / 1'000'000),
                      .tv_usec = static_cast<suseconds_t>(wait_us % 1'000'000)};
  CHECK(event_add(time_event_, &after) == 0);
}

void Loop::end_turn() {
  // By index: the list grows while it runs.
  for (size_t i = 0; i < turn_ends_.size(); ++i) {
    if (turn_ends_[i] == nullptr) continue;
    TurnEnd& target = *std::exchange(turn_ends_[i], nullptr);
    target.requested_ = false;
    target.on_turn_end();
  }
  turn_ends_.clear();
  turn_time_.reset();
}

}  // namespace elastripe
