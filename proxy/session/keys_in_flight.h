// The keys of the commands of one connection that are running: whether the next one has to wait for
// them takes a look-up for each of its own keys, however many there are. flush_all has them all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "proxy/base/memory_pool.h"
#include "proxy/ops/objects/value.h"

namespace elastripe {

using KeyHashes = std::vector<uint64_t>;  // a key that a command names twice is in it twice

// Commands that concern a part of a value each, and no part that is the same, need not wait for
// each other. Such a command has one key.
class KeysInFlight {
 public:
  using ByteRange = objects::ByteRange;

  // Whether one of both writes a key that both have.
  bool conflicts(const KeyHashes& keys, bool writes, ByteRange part = {}) const {
    if (!writes && writers_ == 0) return false;
    return std::ranges::any_of(keys, [&](uint64_t key) {
      const auto use = uses_.find(key);
      return use != uses_.end() && use->second.conflicts(writes, part);
    });
  }
  // Whether one that writes all keys has to wait.
  bool any() const { return !uses_.empty() || all_ > 0; }
  bool all() const { return all_ > 0; }
  bool has_writers() const { return writers_ > 0; }
  void add_all() { ++all_; }
  void remove_all() { --all_; }
  size_t size() const { return uses_.size(); }
  void add(const KeyHashes& keys, bool writes, ByteRange part = {}) {
    writers_ += writes;
    for (const uint64_t key : keys) uses_[key].add(writes, part);
  }
  // As it was added.
  void remove(const KeyHashes& keys, bool writes, ByteRange part = {}) {
    writers_ -= writes;
    for (const uint64_t key : keys) {
      const auto found = uses_.find(key);
      if (found->second.remove(writes, part)) uses_.erase(found);
    }
    if (uses_.empty() && uses_.bucket_count() > kKeptBuckets) uses_.rehash(0);
  }

 private:
  static constexpr size_t kKeptBuckets = 1024;
  struct PartUse {
    ByteRange part;
    bool writes = false;
  };
  struct Use {
    uint32_t commands = 0;  // that concern all of the value
    uint32_t writers = 0;   // those of them that write
    std::vector<PartUse> parts;

    bool conflicts(bool writes, ByteRange part) const {
      if (writes ? commands > 0 : writers > 0) return true;
      return std::ranges::any_of(parts, [&](const PartUse& use) {
        return (writes || use.writes) && (part.is_all() || use.part.overlaps(part));
      });
    }
    void add(bool writes, ByteRange part) {
      if (!part.is_all()) return parts.push_back({part, writes});
      ++commands;
      writers += writes;
    }
    // Whether that was the last.
    bool remove(bool writes, ByteRange part) {
      if (part.is_all()) {
        --commands;
        writers -= writes;
      } else {
        parts.erase(std::ranges::find_if(
            parts, [&](const PartUse& use) { return use.writes == writes && use.part == part; }));
      }
      return commands == 0 && parts.empty();
    }
  };
  std::unordered_map<uint64_t, Use, std::hash<uint64_t>, std::equal_to<>,
                     Pooled<std::pair<const uint64_t, Use>>>
      uses_;
  size_t writers_ = 0;  // commands
  size_t all_ = 0;      // commands that write all keys
};

}  // namespace elastripe
