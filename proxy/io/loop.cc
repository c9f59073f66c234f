#include "proxy/io/loop.h"

#include <event2/event.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
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
  // Only the eventfd crosses threads, so libevent needs no lock of its own. Nor does it keep our
  // timers: its clock is up to 4 ms behind, and a precise one costs a system call in every turn.
  event_config* config = event_config_new();
  CHECK(config != nullptr);
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
  base_ = event_base_new_with_config(config);
  event_config_free(config);
  CHECK(base_ != nullptr, "no event base");
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  CHECK(wake_fd_ >= 0, "no eventfd");
  wake_event_ = event_new(base_, wake_fd_, EV_READ | EV_PERSIST, &Loop::on_wake, this);
  alarm_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  CHECK(alarm_fd_ >= 0, "no timerfd");
  alarm_event_ = event_new(base_, alarm_fd_, EV_READ | EV_PERSIST, &Loop::on_alarm, this);
  CHECK(wake_event_ != nullptr && alarm_event_ != nullptr);
  CHECK(event_add(wake_event_, nullptr) == 0 && event_add(alarm_event_, nullptr) == 0);
}

Loop::~Loop() {
  event_free(wake_event_);
  event_free(alarm_event_);
  event_base_free(base_);
  close(wake_fd_);
  close(alarm_fd_);
}

void Loop::run() {
  stopping_ = false;
  end_turn();
  while (!stopping_) {
    const int wait = timers_are_due_ ? EVLOOP_NONBLOCK : 0;
    event_base_loop(base_, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | wait);
    if (timers_are_due_) fire_timers();
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
  if (!timers_are_due_) wake_at(when);
}

// The alarm is not moved when the timer it was set for is cancelled: it then goes off once for
// nothing, which is cheaper than moving it with every call to a node.
void Loop::wake_at(TimePoint when) {
  if (when >= alarm_at_) return;
  if (when <= now()) {
    timers_are_due_ = true;
    return;
  }
  alarm_at_ = when;
  // The timer has the same clock as now(); 0 would disarm it.
  const auto ns = when.time_since_epoch().count();
  const itimerspec at{.it_interval = {},
                      .it_value = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000}};
  CHECK(timerfd_settime(alarm_fd_, TFD_TIMER_ABSTIME, &at, nullptr) == 0);
}

void Loop::fire_timers() {
  timers_.fire(now());
  timers_are_due_ = false;
  if (const auto next = timers_.next()) wake_at(*next);
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

void Loop::on_alarm(int fd, short, void* self) {
  auto& loop = *static_cast<Loop*>(self);
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(fd, &count, sizeof count);
  loop.alarm_at_ = TimePoint::max();
  loop.timers_are_due_ = true;
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
