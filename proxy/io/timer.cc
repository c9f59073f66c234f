#include "proxy/io/timer.h"

#include "proxy/base/check.h"

namespace elastripe {

Timer::~Timer() { cancel(); }

void Timer::cancel() {
  if (owner_ != nullptr) owner_->remove(*this);
}

Timers::~Timers() { CHECK(heap_.empty(), "{} timers are still armed", heap_.size()); }

void Timers::arm(Timer& timer, TimePoint when) {
  timer.cancel();
  timer.owner_ = this;
  timer.when_ = when;
  heap_.push_back(&timer);
  timer.index_ = heap_.size() - 1;
  sift_up(timer.index_);
}

std::optional<TimePoint> Timers::next() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front()->when_;
}

void Timers::fire(TimePoint now) {
  // A count, not "until none is due": a timer that arms itself for now must not hold the loop.
  for (size_t budget = heap_.size(); budget > 0 && !heap_.empty(); --budget) {
    Timer& timer = *heap_.front();
    if (timer.when_ > now) return;
    remove(timer);
    timer.on_timer();
  }
}

void Timers::remove(Timer& timer) {
  const size_t index = timer.index_;
  Timer* last = heap_.back();
  heap_.pop_back();
  timer.owner_ = nullptr;
  if (last == &timer) return;
  place(last, index);
  sift_up(index);
  sift_down(last->index_);
}

void Timers::place(Timer* timer, size_t index) {
  heap_[index] = timer;
  timer->index_ = index;
}

void Timers::sift_up(size_t index) {
  Timer* timer = heap_[index];
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (heap_[parent]->when_ <= timer->when_) break;
    place(heap_[parent], index);
    index = parent;
  }
  place(timer, index);
}

void Timers::sift_down(size_t index) {
  Timer* timer = heap_[index];
  while (true) {
    size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1]->when_ < heap_[child]->when_) ++child;
    if (timer->when_ <= heap_[child]->when_) break;
    place(heap_[child], index);
    index = child;
  }
  place(timer, index);
}

}  // namespace elastripe
