// Semaphore: a weighted budget with fair waiting, for staged bytes and numbers of flows.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "proxy/async/waiters.h"
#include "proxy/base/check.h"

namespace elastripe {

// Waiters are served in order, so a large one is not starved by small ones. A weight above the
// whole budget is taken as the whole budget.
class Semaphore {
 public:
  explicit Semaphore(uint64_t budget) : budget_(budget) {}
  ~Semaphore() { ELASTRIPE_CHECK(waiters_.empty(), "a semaphore was destroyed with waiters"); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // Holds its share until destroyed or released.
  class [[nodiscard]] Permit {
   public:
    Permit() = default;
    Permit(Semaphore* owner, uint64_t weight) : owner_(owner), weight_(weight) {}
    Permit(Permit&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), weight_(other.weight_) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(weight_, other.weight_);
      return *this;
    }
    ~Permit() { release(); }
    uint64_t weight() const { return weight_; }
    // Takes over what the other, of the same semaphore, holds.
    void merge(Permit other) {
      owner_ = std::exchange(other.owner_, nullptr);
      weight_ += other.weight_;
    }
    // Gives back what is above `weight`.
    void shrink(uint64_t weight) {
      if (owner_ == nullptr || weight >= weight_) return;
      const uint64_t rest = weight_ - weight;
      weight_ = weight;
      owner_->put_back(rest);
    }
    void release() {
      if (owner_ != nullptr) std::exchange(owner_, nullptr)->put_back(std::exchange(weight_, 0));
    }

   private:
    Semaphore* owner_ = nullptr;
    uint64_t weight_ = 0;
  };

  // co_await gives the Permit.
  auto acquire(uint64_t weight) {
    struct [[nodiscard]] Wait {
      Semaphore& semaphore;
      WeightedWaiter waiter;
      bool await_ready() const noexcept { return semaphore.take_now(waiter.weight); }
      void await_suspend(std::coroutine_handle<> handle) noexcept {
        waiter.handle = handle;
        semaphore.waiters_.push_back(waiter);
        ++semaphore.waiting_;
      }
      Permit await_resume() const noexcept { return Permit(&semaphore, waiter.weight); }
    };
    return Wait{*this, {{}, bounded(weight)}};
  }

  // Nothing if it would have to wait.
  std::optional<Permit> try_acquire(uint64_t weight) {
    weight = bounded(weight);
    if (!take_now(weight)) return std::nullopt;
    return Permit(this, weight);
  }

  // What is held stays so, even if it is more than the new budget.
  void resize(uint64_t budget) {
    budget_ = budget;
    serve();
  }

  uint64_t free() const { return budget_ > taken_ ? budget_ - taken_ : 0; }
  uint64_t taken() const { return taken_; }
  size_t waiting() const { return waiting_; }

 private:
  struct WeightedWaiter : Waiter {
    uint64_t weight;
  };

  uint64_t bounded(uint64_t weight) const { return weight < budget_ ? weight : budget_; }
  bool take_now(uint64_t weight) {
    if (!waiters_.empty() || free() < weight) return false;
    taken_ += weight;
    return true;
  }
  void put_back(uint64_t weight) {
    taken_ -= weight;
    serve();
  }

  // A waiter that is resumed here may put back at once: the outermost call serves all of them, so
  // that a queue of any length uses no stack.
  void serve() {
    if (serving_) return;
    serving_ = true;
    while (!waiters_.empty()) {
      auto& first = static_cast<WeightedWaiter&>(waiters_.front());
      first.weight = bounded(first.weight);  // the budget may have become less
      if (first.weight > free()) break;
      taken_ += first.weight;
      --waiting_;
      waiters_.pop_front().handle.resume();
    }
    serving_ = false;
  }

  uint64_t budget_;
  uint64_t taken_ = 0;
  bool serving_ = false;
  WaitList waiters_;
  size_t waiting_ = 0;
};

}  // namespace elastripe
