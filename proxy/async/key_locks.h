// KeyLocks: operations of one key queue, in order, on one worker; so that their compare-and-sets
// rarely conflict. Not needed for correctness: other workers and proxies do not see it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "proxy/async/semaphore.h"

namespace elastripe {

class KeyLocks {
 public:
  // Released when destroyed.
  class Guard {
   public:
    Guard() = default;
    Guard(KeyLocks* owner, std::string key, Semaphore::Permit permit)
        : owner_(owner), key_(std::move(key)), permit_(std::move(permit)) {}
    Guard(Guard&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          key_(std::move(other.key_)),
          permit_(std::move(other.permit_)) {}
    Guard& operator=(Guard&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(key_, other.key_);
      std::swap(permit_, other.permit_);
      return *this;
    }
    ~Guard() {
      if (owner_ == nullptr) return;
      permit_.release();
      owner_->forget(key_);
    }

   private:
    KeyLocks* owner_ = nullptr;
    std::string key_;
    Semaphore::Permit permit_;
  };

  Task<Guard> lock(std::string key) {
    auto& slot = slots_[key];
    if (slot == nullptr) slot = std::make_unique<Slot>();
    Slot* own = slot.get();
    ++own->users;
    auto permit = co_await own->turn.acquire(1);
    co_return Guard(this, std::move(key), std::move(permit));
  }

  size_t keys() const { return slots_.size(); }

 private:
  struct Slot {
    Semaphore turn{1};
    size_t users = 0;
  };
  void forget(const std::string& key) {
    auto it = slots_.find(key);
    if (--it->second->users == 0) slots_.erase(it);
  }

  std::unordered_map<std::string, std::unique_ptr<Slot>> slots_;
};

}  // namespace elastripe
