// The keys of the commands of one connection that are running: whether the next one has to wait for
// them takes a look-up for each of its own keys, however many there are. flush_all has them all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "proxy/base/memory_pool.h"

namespace elastripe {

using KeyHashes = std::vector<uint64_t>;  // a key that a command names twice is in it twice

class KeysInFlight {
 public:
  // Whether one of both writes a key that both have.
  bool conflicts(const KeyHashes& keys, bool writes) const {
    if (!writes && writers_ == 0) return false;
    return std::ranges::any_of(keys, [&](uint64_t key) {
      const auto use = uses_.find(key);
      return use != uses_.end() && (writes || use->second.writers > 0);
    });
  }
  // Whether one that writes all keys has to wait.
  bool any() const { return !uses_.empty() || all_ > 0; }
  bool all() const { return all_ > 0; }
  void add_all() { ++all_; }
  void remove_all() { --all_; }
  size_t size() const { return uses_.size(); }
  void add(const KeyHashes& keys, bool writes) {
    writers_ += writes;
    for (const uint64_t key : keys) {
      Use& use = uses_[key];
      ++use.commands;
      use.writers += writes;
    }
  }
  void remove(const KeyHashes& keys, bool writes) {
    writers_ -= writes;
    for (const uint64_t key : keys) {
      const auto found = uses_.find(key);
      found->second.writers -= writes;
      if (--found->second.commands == 0) uses_.erase(found);
    }
    if (uses_.empty() && uses_.bucket_count() > kKeptBuckets) uses_.rehash(0);
  }

 private:
  static constexpr size_t kKeptBuckets = 1024;
  struct Use {
    uint32_t commands = 0;
    uint32_t writers = 0;
  };
  std::unordered_map<uint64_t, Use, std::hash<uint64_t>, std::equal_to<>,
                     Pooled<std::pair<const uint64_t, Use>>>
      uses_;
  size_t writers_ = 0;  // commands
  size_t all_ = 0;      // commands that write all keys
};

}  // namespace elastripe
