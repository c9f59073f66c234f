#include "proxy/session/incoming_value.h"

#include <algorithm>

namespace elastripe {

auto IncomingValue::until_given() {
  struct Wait {
    IncomingValue& value;
    bool await_ready() const noexcept { return value.broken_.has_value(); }
    void await_suspend(std::coroutine_handle<> waiter) const {
      value.waiter_ = waiter;
      value.asked_();
    }
    void await_resume() const noexcept {}
  };
  return Wait{*this};
}

Task<Result<void>> IncomingValue::arrived(size_t bytes) {
  awaited_ = std::min(bytes, kArrivedBytes);
  co_await until_given();
  awaited_ = 0;
  if (broken_) co_return fail(*broken_);
  co_return Result<void>{};
}

void IncomingValue::offer(size_t bytes) {
  if (awaits_arrival() && bytes >= awaited_) give();
}

Task<Result<Buffer>> IncomingValue::next(size_t bytes) {
  if (broken_) co_return fail(*broken_);
  part_ = Buffer::allocate(bytes);
  filled_ = 0;
  co_await until_given();
  filled_ = 0;
  if (broken_) co_return fail(*broken_);
  co_return std::exchange(part_, {});
}

MutableByteView IncomingValue::room() { return part_.mutable_bytes().subspan(filled_); }

void IncomingValue::received(size_t bytes) {
  filled_ += bytes;
  received_ += bytes;
  if (filled_ == part_.size() && received_ < size_) give();
}

void IncomingValue::complete() {
  is_complete_ = true;
  give();
}

void IncomingValue::break_off(Error why) {
  if (broken_ || is_complete_) return;
  broken_ = std::move(why);
  part_ = {};
  filled_ = 0;
  give();
}

void IncomingValue::give() {
  filled_ = part_.size();
  if (waiter_) std::exchange(waiter_, nullptr).resume();
}

}  // namespace elastripe
