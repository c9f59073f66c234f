// Which threads are inside a frame, and since when: what heartbeats ask before they lengthen a
// lease. docs/node-protocol.md, "Lease". Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace elastripe::node {

class Progress {
  struct alignas(64) Slot {
    std::atomic<uint64_t> since_ms = 0;  // 0: free
  };

 public:
  // A thread's stay inside a frame, from construction to destruction.
  class Stay {
   public:
    Stay(Progress& progress, uint64_t now_ms) : slot_(progress.enter(now_ms)) {}
    ~Stay() {
      if (slot_ != nullptr) slot_->since_ms = 0;
    }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    Slot* const slot_;
  };

  // How long the stay that began first has lasted by now; 0 if nobody is inside.
  uint64_t longest_ms(uint64_t now_ms) const;

 private:
  // Null if more threads are inside than there are slots.
  Slot* enter(uint64_t now_ms);

  std::array<Slot, 80> slots_;  // a node has 64 worker threads at most
  // Nobody was ever in those from here on. Heartbeats look at the others only: each slot is a line
  // of the cache.
  std::atomic<size_t> tried_ = 0;
};

}  // namespace elastripe::node
