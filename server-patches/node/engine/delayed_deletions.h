// Shards that a SHARD_DELETE wants gone later: names that no record can ever refer to again, so
// that neither maps nor leases matter to them. A bounded number; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "server-patches/node/format/shard.h"

namespace elastripe::node {

class DelayedDeletions {
 public:
  explicit DelayedDeletions(size_t max_names) : max_names_(max_names) {}

  // Names that wait already keep their time. False, and none of them is taken, if there is no room.
  bool add(uint64_t due_ms, const std::vector<ShardName>& names) {
    std::lock_guard lock(mutex_);
    if (waiting_.size() + names.size() > max_names_) return false;
    std::vector<ShardName> added;
    std::ranges::copy_if(names, std::back_inserter(added),
                         [&](const ShardName& name) { return !waiting_.contains(name); });
    if (added.empty()) return true;
    // First, so that nothing waits for ever if there is no memory for the rest.
    const auto due = by_time_.emplace(due_ms, std::move(added));
    waiting_.insert(due->second.begin(), due->second.end());
    return true;
  }

  // At most `max`, and no more than what one add() brought beyond that; the earliest first.
  std::vector<ShardName> take_due(uint64_t now_ms, size_t max) {
    std::vector<ShardName> due;
    std::lock_guard lock(mutex_);
    while (!by_time_.empty() && by_time_.begin()->first <= now_ms && due.size() < max) {
      const auto& names = by_time_.begin()->second;
      due.insert(due.end(), names.begin(), names.end());
      for (const ShardName& name : names) waiting_.erase(name);
      by_time_.erase(by_time_.begin());
    }
    return due;
  }

  bool has(const ShardName& name) const {
    std::lock_guard lock(mutex_);
    return waiting_.contains(name);
  }

 private:
  struct Hash {
    size_t operator()(const ShardName& name) const {
      const uint64_t place = uint64_t{name.segment} << 32 ^ uint64_t { name.generation } << 8;
      return (name.txid.hi ^ name.txid.lo * 0x9e3779b97f4a7c15) + (place ^ name.index) * 0xff51afd7;
    }
  };

  const size_t max_names_;
  mutable std::mutex mutex_;
  std::multimap<uint64_t, std::vector<ShardName>> by_time_;
  std::unordered_set<ShardName, Hash> waiting_;
};

}  // namespace elastripe::node
