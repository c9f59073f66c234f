// WaitList: flows that wait for the same thing, in order, without memory of its own: each waiter
// lies in the frame of its flow.
#pragma once

#include <coroutine>

namespace elastripe {

struct Waiter {
  std::coroutine_handle<> handle;
  Waiter* next = nullptr;
};

class WaitList {
 public:
  bool empty() const { return first_ == nullptr; }
  Waiter& front() const { return *first_; }
  void push_back(Waiter& waiter) {
    (first_ == nullptr ? first_ : last_->next) = &waiter;
    last_ = &waiter;
  }
  Waiter& pop_front() {
    Waiter& waiter = *first_;
    first_ = waiter.next;
    return waiter;
  }

 private:
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace elastripe
