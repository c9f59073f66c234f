// Turns: flows that run at the same time and take their turns at one thing in a fixed order.
#pragma once

#include <coroutine>
#include <utility>

#include "proxy/base/check.h"

namespace elastripe {

// The first ticket that was not given back has the turn. One thread; must outlive its tickets, and
// whoever gives one back. The order is a list through the tickets, so it takes no memory.
class Turns {
 public:
  Turns() = default;
  ~Turns() { ELASTRIPE_CHECK(first_ == nullptr, "turns were destroyed with tickets out"); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // A place in the order, until destroyed. Not moved while a flow waits with it.
  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          previous_(other.previous_),
          next_(other.next_) {
      ELASTRIPE_CHECK(!other.waiter_, "a ticket was moved while a flow waits with it");
      if (owner_ != nullptr) link(this, this);
    }
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (owner_ == nullptr) return;
      link(next_, previous_);
      owner_->go_on();
    }

    bool has_turn() const { return owner_->first_ == this; }
    // Awaited by one flow at a time.
    auto turn() {
      struct [[nodiscard]] Wait {
        Ticket& ticket;
        bool await_ready() const noexcept { return ticket.has_turn(); }
        void await_suspend(std::coroutine_handle<> waiter) const {
          ELASTRIPE_CHECK(!ticket.waiter_, "two flows wait with one ticket");
          ticket.waiter_ = waiter;
        }
        void await_resume() const noexcept {}
      };
      return Wait{*this};
    }

   private:
    friend class Turns;
    explicit Ticket(Turns& owner) : owner_(&owner), previous_(owner.last_) { link(this, this); }

    // What the neighbours, or the ends, now have in this place.
    void link(Ticket* after_previous, Ticket* before_next) {
      (previous_ != nullptr ? previous_->next_ : owner_->first_) = after_previous;
      (next_ != nullptr ? next_->previous_ : owner_->last_) = before_next;
    }

    Turns* owner_;
    Ticket* previous_;
    Ticket* next_ = nullptr;
    std::coroutine_handle<> waiter_;
  };

  Ticket take() { return Ticket(*this); }

 private:
  // A flow that is resumed here may give its ticket back at once: the outermost call serves all, so
  // that a queue of any length uses no stack.
  void go_on() {
    if (serving_) return;
    serving_ = true;
    while (first_ != nullptr && first_->waiter_) std::exchange(first_->waiter_, nullptr).resume();
    serving_ = false;
  }

  Ticket* first_ = nullptr;
  Ticket* last_ = nullptr;
  bool serving_ = false;
};

}  // namespace elastripe
