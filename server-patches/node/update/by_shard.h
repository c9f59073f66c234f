// ByShard: something for each of some shards. For methods of updates that change shards in place
// (docs/updates.md, "Baselines").
//
// Any thread; what is there for a shard belongs to whoever holds the shard's latch.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "server-patches/node/format/shard.h"

namespace elastripe::node {

template <class T>
class ByShard {
 public:
  // Null if there is nothing.
  T* find(const ShardName& name) {
    if (count_ == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto at = things_.find(name);
    return at == things_.end() ? nullptr : &at->second;
  }
  // It is made if there is none.
  T& at(const ShardName& name) {
    const std::lock_guard lock(mutex_);
    T& thing = things_[name];
    count_ = things_.size();
    return thing;
  }
  void drop(const ShardName& name) {
    if (count_ == 0) return;
    const std::lock_guard lock(mutex_);
    things_.erase(name);
    count_ = things_.size();
  }

 private:
  std::mutex mutex_;
  std::map<ShardName, T> things_;  // guarded by mutex_, but not what is in it
  std::atomic<size_t> count_ = 0;
};

}  // namespace elastripe::node
