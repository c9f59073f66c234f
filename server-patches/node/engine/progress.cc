#include "server-patches/node/engine/progress.h"

#include <algorithm>

namespace elastripe::node {
namespace {

// Where a thread looks for a free slot first: in one that no other thread uses, mostly.
size_t first_slot() {
  static std::atomic<size_t> threads = 0;
  thread_local const size_t first = threads++;
  return first;
}

}  // namespace

Progress::Slot* Progress::enter(uint64_t now_ms) {
  const size_t first = first_slot();
  for (size_t i = 0; i < slots_.size(); ++i) {
    const size_t index = (first + i) % slots_.size();
    Slot& slot = slots_[index];
    // Before it is taken, so that whoever looks meanwhile looks at it.
    size_t tried = tried_;
    while (tried <= index && !tried_.compare_exchange_weak(tried, index + 1)) {
    }
    uint64_t free = 0;
    if (slot.since_ms.compare_exchange_strong(free, std::max<uint64_t>(now_ms, 1))) return &slot;
  }
  return nullptr;
}

uint64_t Progress::longest_ms(uint64_t now_ms) const {
  uint64_t longest = 0;
  const size_t tried = tried_;
  for (size_t i = 0; i < tried; ++i) {
    const uint64_t since_ms = slots_[i].since_ms;
    if (since_ms != 0 && since_ms < now_ms) longest = std::max(longest, now_ms - since_ms);
  }
  return longest;
}

}  // namespace elastripe::node
