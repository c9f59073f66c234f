// IncomingValue: the value of a storage command while its bytes come from the client, part by part
// as the flow that stores it asks for them.
#pragma once

#include <functional>
#include <optional>

#include "proxy/ops/objects/value.h"

namespace elastripe {

// Between a flow (ValueSource) and the session that owns it. What it completes it resumes at once,
// inside the session's calls; `asked` is called when the flow waits for bytes, or for their
// arrival.
class IncomingValue : public objects::ValueSource {
 public:
  IncomingValue(uint64_t size, std::function<void()> asked)
      : size_(size), asked_(std::move(asked)) {}

  // A part is there when so many bytes of it have come, or all.
  static constexpr size_t kArrivedBytes = 64 << 10;

  uint64_t size() const override { return size_; }
  Task<Result<void>> arrived(size_t bytes) override;
  Task<Result<Buffer>> next(size_t bytes) override;

  // The flow waits for the next part to arrive; it takes no bytes before.
  bool awaits_arrival() const { return awaited_ > 0; }
  // So many of the next bytes are here, elsewhere.
  void offer(size_t bytes);
  // Where the next bytes go; empty: none are asked for, or all are here.
  MutableByteView room();
  // So many of them are there.
  void received(size_t bytes);
  // The whole value has come, and so has what proves it: the last part is given.
  void complete();
  // It never will.
  void break_off(Error why);

 private:
  auto until_given();
  void give();

  const uint64_t size_;
  const std::function<void()> asked_;
  Buffer part_;  // that was asked for
  size_t filled_ = 0;
  size_t awaited_ = 0;     // bytes that are to be here before the flow goes on
  uint64_t received_ = 0;  // of the value
  bool is_complete_ = false;
  std::optional<Error> broken_;
  std::coroutine_handle<> waiter_;
};

}  // namespace elastripe
