// KeyLocks: operations of one key queue, in order, on one worker; so that their compare-and-sets
// rarely conflict. Not needed for correctness: other workers and proxies do not see it.
#pragma once

#include <coroutine>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proxy/async/waiters.h"
#include "proxy/base/check.h"
#include "proxy/base/hash.h"
#include "proxy/base/reuse.h"

namespace elastripe {

// By the hash of the key. A flow must hold one lock at most: two keys may share a hash, and the
// second lock would then wait for the first.
class KeyLocks {
 public:
  KeyLocks() = default;
  ~KeyLocks() { ELASTRIPE_CHECK(queues_.empty(), "key locks were destroyed while held"); }
  KeyLocks(const KeyLocks&) = delete;
  KeyLocks& operator=(const KeyLocks&) = delete;

  // Released when destroyed.
  class [[nodiscard]] Guard {
   public:
    Guard() = default;
    Guard(KeyLocks* owner, uint64_t hash) : owner_(owner), hash_(hash) {}
    Guard(Guard&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), hash_(other.hash_) {}
    Guard& operator=(Guard&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(hash_, other.hash_);
      return *this;
    }
    ~Guard() {
      if (owner_ != nullptr) owner_->release(hash_);
    }

   private:
    KeyLocks* owner_ = nullptr;
    uint64_t hash_ = 0;
  };

  // co_await gives the Guard.
  auto lock(std::string_view key) {
    struct [[nodiscard]] Wait {
      KeyLocks& locks;
      uint64_t hash;
      Waiter waiter{};
      bool await_ready() { return locks.take_now(hash); }
      void await_suspend(std::coroutine_handle<> handle) {
        waiter.handle = handle;
        locks.queues_.find(hash)->second.waiters.push_back(waiter);
      }
      Guard await_resume() const { return Guard(&locks, hash); }
    };
    return Wait{*this, hash64(key)};
  }

  // Nobody has it, or waits for it.
  bool is_free(std::string_view key) const {
    const auto found = queues_.find(hash64(key));
    return found == queues_.end() || (!found->second.is_held && found->second.waiters.empty());
  }

  // Nothing if it is not free.
  std::optional<Guard> try_lock(std::string_view key) {
    const uint64_t hash = hash64(key);
    if (!take_now(hash)) return std::nullopt;
    return Guard(this, hash);
  }

  size_t keys() const { return queues_.size(); }

 private:
  struct Queue {
    WaitList waiters;
    bool is_held = true;
    bool is_serving = false;
  };
  using Queues = std::unordered_map<uint64_t, Queue>;
  static constexpr size_t kSpareQueues = kReusesMemory ? 1024 : 0;

  bool take_now(uint64_t hash) {
    if (const auto found = queues_.find(hash); found != queues_.end()) {
      Queue& queue = found->second;
      if (queue.is_held || !queue.waiters.empty()) return false;
      return queue.is_held = true;
    }
    if (spare_.empty()) {
      queues_.emplace(hash, Queue{});
      return true;
    }
    Queues::node_type node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = hash;
    node.mapped() = {};
    queues_.insert(std::move(node));
    return true;
  }

  // A flow that is resumed here may release at once: the outermost call serves all of them, so that
  // a queue of any length uses no stack.
  void release(uint64_t hash) {
    const auto found = queues_.find(hash);
    Queue& queue = found->second;
    queue.is_held = false;
    if (queue.is_serving) return;
    queue.is_serving = true;
    while (!queue.is_held && !queue.waiters.empty()) {
      queue.is_held = true;
      queue.waiters.pop_front().handle.resume();
    }
    queue.is_serving = false;
    if (queue.is_held) return;
    auto node = queues_.extract(hash);
    if (spare_.size() < kSpareQueues) spare_.push_back(std::move(node));
  }

  Queues queues_;
  std::vector<Queues::node_type> spare_;  // a lock takes no memory but the first time
};

}  // namespace elastripe
