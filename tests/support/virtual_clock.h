// Virtual time: an event queue, and the Clock of one process that runs on it. Nothing here reads a
// real clock, so that one seed reproduces a whole run. Single-threaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "proxy/async/clock.h"
#include "proxy/async/one_shot.h"

namespace elastripe {

// Deterministic bits (SplitMix64).
class SimRandom final : public Random {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}

  uint64_t next() override {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }
  Duration between(Duration low, Duration high) {
    return low + Duration(static_cast<int64_t>(
                     below(static_cast<uint64_t>(std::max<int64_t>((high - low).count(), 0)) + 1)));
  }

 private:
  uint64_t state_;
};

// Actions ordered by (time, random tie break): what is due at one instant runs in any order.
class EventQueue {
 public:
  using Action = std::move_only_function<void()>;
  // Names an action, to call it off.
  struct Ticket {
    uint32_t slot = 0;
    uint64_t tie = 0;
  };

  explicit EventQueue(uint64_t seed) : ties_(seed) {}

  TimePoint now() const { return now_; }
  uint64_t events_run() const { return events_run_; }

  // A time in the past means now.
  Ticket at(TimePoint when, Action action) {
    const Ticket ticket{free_slot(), ties_.next()};
    slots_[ticket.slot] = {ticket.tie, std::move(action)};
    heap_.push_back({std::max(when, now_), ticket});
    std::push_heap(heap_.begin(), heap_.end(), Later());
    return ticket;
  }
  Ticket after(Duration delay, Action action) { return at(now_ + delay, std::move(action)); }

  // The action does not run any more, if it has not yet. Most timeouts end so: were they left to
  // happen, they would be a quarter of all events.
  void call_off(Ticket ticket) {
    if (ticket.slot < slots_.size() && slots_[ticket.slot].tie == ticket.tie) {
      slots_[ticket.slot].action = nullptr;
    }
  }

  // Advances the time to the next action and runs it; false if there is none.
  bool run_one() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), Later());
      const Event event = heap_.back();
      heap_.pop_back();
      Action action = std::exchange(slots_[event.ticket.slot], {}).action;
      free_.push_back(event.ticket.slot);
      if (!action) continue;
      instant_events_ = event.when == now_ ? instant_events_ + 1 : 0;
      ELASTRIPE_CHECK(instant_events_ < kMaxInstantEvents, "virtual time does not advance");
      now_ = event.when;
      ++events_run_;
      action();
      return true;
    }
    return false;
  }

 private:
  static constexpr uint64_t kMaxInstantEvents = 1'000'000;
  // Small, as a heap moves its elements a lot: the actions stay in their slots.
  struct Event {
    TimePoint when;
    Ticket ticket;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.when != b.when ? a.when > b.when : a.ticket.tie > b.ticket.tie;
    }
  };
  struct Slot {
    uint64_t tie = 0;
    Action action;
  };

  uint32_t free_slot() {
    if (free_.empty()) {
      slots_.emplace_back();
      return static_cast<uint32_t>(slots_.size() - 1);
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  SimRandom ties_;
  TimePoint now_{};
  uint64_t instant_events_ = 0;
  uint64_t events_run_ = 0;
  std::vector<Event> heap_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

// The clock of one process: it goes on while the process is paused (SIGSTOP), but what the process
// would do waits for its resumption. Must outlive the queue's events.
class VirtualClock final : public Clock {
 public:
  static constexpr uint64_t kUnixStartMs = 1'700'000'000'000;

  // `wall_lead`: by so much its wall clock is ahead from the start.
  explicit VirtualClock(EventQueue& events, Duration wall_lead = {})
      : events_(events), set_by_(wall_lead) {}

  TimePoint now() const override { return events_.now(); }
  uint64_t unix_ms() const override {
    using std::chrono::milliseconds;
    return kUnixStartMs + static_cast<uint64_t>(std::chrono::duration_cast<milliseconds>(
                                                    now().time_since_epoch() + set_by_)
                                                    .count());
  }
  // Somebody sets the wall clock, forward or back.
  void set_wall_clock_by(Duration step) { set_by_ += step; }
  Task<bool> sleep_until(TimePoint when) override {
    if (cancelled_) co_return false;
    OneShot<bool> woken;
    const uint64_t id = next_sleep_++;
    sleeps_[id] = &woken;
    post(when, [this, id] { wake(id, true); });
    co_return co_await woken;
  }

  // An action of this process: runs at `when`, or when the process goes on; never once cancelled.
  template <class Action>
  EventQueue::Ticket post(TimePoint when, Action action) {
    return events_.at(
        when, [this, action = std::move(action)]() mutable { run_here(std::move(action)); });
  }
  // As post() for now, for who is an event already.
  template <class Action>
  void run_here(Action action) {
    if (cancelled_) return;
    if (paused_) {
      waiting_.push_back(std::move(action));
    } else {
      action();
    }
  }
  // If it does not wait for the process to go on already.
  void call_off(EventQueue::Ticket ticket) { events_.call_off(ticket); }

  void pause() { paused_ = true; }
  void resume() {
    paused_ = false;
    for (auto& action : std::exchange(waiting_, {})) post(now(), std::move(action));
  }
  bool paused() const { return paused_; }

  // Ends every sleep, now and later, as cancelled.
  void cancel() {
    cancelled_ = true;
    paused_ = false;
    waiting_.clear();
    while (!sleeps_.empty()) wake(sleeps_.begin()->first, false);
  }
  bool cancelled() const { return cancelled_; }

 private:
  void wake(uint64_t id, bool elapsed) {
    const auto sleep = sleeps_.find(id);
    if (sleep == sleeps_.end()) return;
    OneShot<bool>* woken = sleep->second;
    sleeps_.erase(sleep);
    woken->set(elapsed);
  }

  EventQueue& events_;
  Duration set_by_;
  uint64_t next_sleep_ = 0;
  std::map<uint64_t, OneShot<bool>*> sleeps_;
  std::vector<EventQueue::Action> waiting_;
  bool paused_ = false;
  bool cancelled_ = false;
};

}  // namespace elastripe
