// What frames pass before they see the map: shared by data frames, exclusive for INSTALL_MAP.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>

namespace elastripe::node {

// A shared mutex that a steady stream of readers can not keep an installer out of: glibc's own
// prefers readers.
class Gate {
 public:
  void lock_shared() {
    if (closing_.load(std::memory_order_acquire)) std::lock_guard wait(turnstile_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }
  void lock() {
    turnstile_.lock();
    closing_.store(true, std::memory_order_release);
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    closing_.store(false, std::memory_order_release);
    turnstile_.unlock();
  }

 private:
  std::atomic<bool> closing_ = false;
  std::mutex turnstile_;
  std::shared_mutex mutex_;
};

}  // namespace elastripe::node
