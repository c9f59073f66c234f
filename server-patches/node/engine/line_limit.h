// LineLimit: how many lines whoever reaches the node may make it log. Any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

namespace elastripe::node {

class LineLimit {
 public:
  // At most `lines` in `period_ms`.
  LineLimit(uint64_t lines, uint64_t period_ms) : lines_(lines), period_ms_(period_ms) {}

  struct Turn {
    bool may_log = false;
    uint64_t left_out = 0;  // lines before this one that were not logged and not yet told
  };
  Turn next(uint64_t now_ms) {
    const std::lock_guard lock(mutex_);
    if (taken_ == 0 || now_ms - began_ms_ >= period_ms_) {
      began_ms_ = now_ms;
      taken_ = 0;
    }
    if (taken_ == lines_) {
      ++left_out_;
      return {};
    }
    ++taken_;
    return {.may_log = true, .left_out = std::exchange(left_out_, 0)};
  }

 private:
  const uint64_t lines_;
  const uint64_t period_ms_;
  std::mutex mutex_;
  uint64_t began_ms_ = 0;
  uint64_t taken_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace elastripe::node
