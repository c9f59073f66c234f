// What a data shard's node keeps of changes that its parities do not have, and what another node
// holds of them. For methods of updates that change shards in place (docs/updates.md, "Baselines").
//
// Both belong to whoever holds the latch of their shard.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "server-patches/node/format/shard.h"
#include "server-patches/node/update/log_pool.h"

namespace elastripe::node {

// Pages of a data shard as its parities know them. The pages themselves have changed since.
class KeptPages {
 public:
  // The grain of what is known to have changed: as many of them are in a page as bits in a word.
  static constexpr uint32_t kLineBytes = kPageBytes / 64;

  struct Page {
    LogBytes before;
    uint64_t lines = 0;    // that have changed, from the lowest bit on
    uint64_t written = 0;  // when, in the order of writes
  };

  bool empty() const { return pages_.empty(); }
  bool has(size_t page) const { return pages_.contains(page); }
  const Page& page(size_t page) const { return pages_.at(page); }
  // What they take: that of whole pages.
  size_t bytes() const { return pages_.size() * kPageBytes; }

  void keep(size_t page, LogBytes before) { pages_[page].before = std::move(before); }
  // These bytes of the page, which is kept, are written.
  void note_write(size_t page, size_t begin, size_t end);
  // The least recently written, as many as it takes to have at most so many bytes without them;
  // ascending.
  std::vector<size_t> oldest(size_t left_bytes) const;
  void forget(size_t page) { pages_.erase(page); }

 private:
  std::map<size_t, Page> pages_;
  uint64_t writes_ = 0;
};

// The newest bytes of each place, as they come.
class HeldBytes {
 public:
  void hold(uint32_t offset, LogBytes bytes);
  // How many bytes there were.
  size_t drop(uint64_t begin, uint64_t end);
  bool empty() const { return pieces_.empty(); }

 private:
  std::map<uint64_t, LogBytes> pieces_;  // disjoint, by offset
};

}  // namespace elastripe::node
