// The memory of update logs: units of one size. Each is an item that is allocated and never linked,
// so that it counts as the node's memory and is never evicted. docs/updates.md, "The log".
//
// A unit takes bytes at its end while it is the active one, is full when the next does not fit, and
// goes when nothing refers to any of its bytes any more.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "server-patches/node/store/item_store.h"

namespace elastripe::node {

class LogPool;

// Bytes in a unit, which stays as long as anything refers to any of them. The pool outlives them.
class LogBytes {
 public:
  LogBytes() = default;
  LogBytes(LogBytes&& other) noexcept;
  LogBytes& operator=(LogBytes&& other) noexcept;
  LogBytes(const LogBytes&) = delete;
  LogBytes& operator=(const LogBytes&) = delete;
  ~LogBytes();

  size_t size() const { return size_; }
  // `out` is as long. (Units are larger than what a store has in one piece.)
  void read(MutableByteView out) const;
  // offset + bytes lie inside.
  LogBytes part(size_t offset, size_t bytes) const;
  // For the pool's statistics: newer bytes have taken the place of so many.
  void count_merged(size_t bytes) const;

 private:
  friend class LogPool;
  struct Unit;
  LogBytes(std::shared_ptr<Unit> unit, size_t at, size_t size);

  std::shared_ptr<Unit> unit_;
  size_t at_ = 0;
  size_t size_ = 0;
};

// Any thread.
class LogPool {
 public:
  // What each piece takes of a unit beside its bytes. Nothing is there: it stands for what is kept
  // of the piece outside of the store, so that this is bounded with the units.
  static constexpr size_t kBesideBytes = 128;

  struct Options {
    size_t unit_bytes = 64 << 10;  // at least that of the largest append, and what goes with it
    size_t units = 20;             // for what has no claim to more
  };

  LogPool(Options options, ItemStore& store);

  enum class Claim : uint8_t {
    kNew,       // within the units of the pool
    kAccepted,  // what another node has already: beyond them, as long as there is memory
  };
  // Nothing if there is no room.
  std::optional<LogBytes> append(ByteView bytes, Claim claim);

  struct Usage {
    size_t units = 0;        // that hold something
    size_t limit_units = 0;  // for new updates
    size_t unit_bytes = 0;
    size_t live_bytes = 0;      // that are referred to
    uint64_t merged_bytes = 0;  // since the start: newer ones have taken their place
    uint64_t made_units = 0;    // since the start
    // A quarter of the units is in use, and more than half of their bytes is not.
    bool is_scattered() const {
      return 4 * units >= limit_units && 2 * live_bytes < units * unit_bytes;
    }
  };
  Usage usage() const;

 private:
  friend class LogBytes;

  const Options options_;
  ItemStore& store_;
  std::atomic<size_t> units_ = 0;
  std::atomic<size_t> live_bytes_ = 0;
  std::atomic<uint64_t> merged_bytes_ = 0;
  std::atomic<uint64_t> made_units_ = 0;
  std::mutex mutex_;
  std::shared_ptr<LogBytes::Unit> active_;  // guarded by mutex_, as are its bytes in use
};

}  // namespace elastripe::node
