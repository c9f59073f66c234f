// Turns: flows that run at the same time and take their turns at one thing in a fixed order.
#pragma once

#include <coroutine>
#include <list>
#include <utility>

#include "proxy/base/check.h"

namespace elastripe {

// The first ticket that was not given back has the turn. One thread; must outlive its tickets, and
// whoever gives one back.
class Turns {
  struct Place {
    bool passed = false;
    std::coroutine_handle<> waiter;
  };

 public:
  Turns() = default;
  ~Turns() { ELASTRIPE_CHECK(places_.empty(), "turns were destroyed with tickets out"); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // A place in the order, until destroyed.
  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), place_(other.place_) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (owner_ == nullptr) return;
      place_->passed = true;
      owner_->go_on();
    }

    bool has_turn() const { return &owner_->places_.front() == place_; }
    // Awaited by one flow at a time.
    auto turn() {
      struct Wait {
        Ticket& ticket;
        bool await_ready() const noexcept { return ticket.has_turn(); }
        void await_suspend(std::coroutine_handle<> waiter) const {
          ELASTRIPE_CHECK(!ticket.place_->waiter, "two flows wait with one ticket");
          ticket.place_->waiter = waiter;
        }
        void await_resume() const noexcept {}
      };
      return Wait{*this};
    }

   private:
    friend class Turns;
    Ticket(Turns* owner, Place* place) : owner_(owner), place_(place) {}

    Turns* owner_;
    Place* place_;
  };

  Ticket take() { return {this, &places_.emplace_back()}; }

 private:
  // A flow that is resumed here may give its ticket back at once: the outermost call serves all, so
  // that a queue of any length uses no stack.
  void go_on() {
    if (serving_) return;
    serving_ = true;
    while (!places_.empty()) {
      Place& first = places_.front();
      if (first.passed) {
        places_.pop_front();
      } else if (first.waiter) {
        std::exchange(first.waiter, nullptr).resume();
      } else {
        break;
      }
    }
    serving_ = false;
  }

  std::list<Place> places_;  // tickets point into it
  bool serving_ = false;
};

}  // namespace elastripe
