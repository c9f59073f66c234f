// Storage under the engine: memcached's items in the real node, a bounded arena in tests and in the
// simulator.
//
// An item is a key and a value of fixed length. It is written between allocate() and link() by the
// thread that allocated it. After link() it only changes while nobody else refers to it
// (is_unshared()): otherwise a change is a new item linked over the old one, so that no reader sees
// half of it. Items live until removed: a store never evicts.
//
// Threads: calls that concern one key are made with the engine's latch of that key held; different
// keys may be used at once. An ItemRef may outlive the latch and keeps the bytes readable.
#pragma once

#include <functional>
#include <utility>

#include "server-patches/node/format/wire.h"

namespace elastripe::node {

class ItemStore;

// A counted reference to an item, linked or not. Movable; the destructor releases it.
class ItemRef {
 public:
  ItemRef() = default;
  ItemRef(ItemStore* store, void* item) : store_(store), item_(item) {}
  ItemRef(ItemRef&& other) noexcept
      : store_(other.store_), item_(std::exchange(other.item_, nullptr)) {}
  ItemRef& operator=(ItemRef&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(item_, other.item_);
    return *this;
  }
  ItemRef(const ItemRef&) = delete;
  ItemRef& operator=(const ItemRef&) = delete;
  ~ItemRef();

  explicit operator bool() const { return item_ != nullptr; }
  void* get() const { return item_; }

 private:
  ItemStore* store_ = nullptr;
  void* item_ = nullptr;
};

// Who may use the last bytes of memory (docs/node-protocol.md, "Memory"): new data stops at the
// soft limit; live records that the head has committed, and touches, may use the reserve but for
// its last quarter; tombstones and fences may use all of it. Where even that is gone, both are
// allocated in place of what they replace.
enum class Urgency { kNewData, kCommitted, kMayUseReserve };

// The part of a reserve of that size (in any unit) which `urgency` must leave.
constexpr uint64_t kept_of_reserve(Urgency urgency, uint64_t reserve) {
  if (urgency == Urgency::kNewData) return reserve;
  return urgency == Urgency::kCommitted ? reserve / 4 : 0;
}

class ItemStore {
 public:
  virtual ~ItemStore() = default;

  // Null if there is no such item.
  virtual ItemRef find(std::string_view key) = 0;
  // What is known of an item's uses, since it was linked or took those of the item before it.
  struct Use {
    bool was_used = false;
    uint32_t idle_s = 0;  // since the last one
  };
  // The same; tells of the uses before, and notes this one if it `counts`.
  virtual ItemRef use(std::string_view key, bool counts, Use& before) = 0;
  // Null if there is no room; nothing that is stored changes. Does not wait.
  virtual ItemRef allocate(std::string_view key, size_t value_bytes, Urgency urgency) = 0;
  // The last resort, beyond every limit: null unless the linked item of the key has a value at
  // least as long, which this one is to replace.
  virtual ItemRef allocate_in_place(std::string_view key, size_t value_bytes) = 0;
  // Where allocate() had no room: waits, for 100 ms at most, for memory that is free but not for
  // items of that size yet. False if none is to be had so. Nothing is locked meanwhile: no latch is
  // held.
  virtual bool wait_for_room(size_t key_bytes, size_t value_bytes, Urgency urgency) = 0;
  // Makes `item` the item of its key, in place of an older one, whose uses are its own if it
  // `stays`: it has the same value.
  virtual void link(const ItemRef& item, bool stays = false) = 0;
  // True if there was one.
  virtual bool remove(std::string_view key) = 0;

  virtual std::string_view key(const ItemRef& item) const = 0;
  virtual size_t value_bytes(const ItemRef& item) const = 0;
  // offset + size must lie inside the value. A value may be in several chunks.
  virtual void read(const ItemRef& item, size_t offset, MutableByteView out) const = 0;
  // The bytes where they lie, for as long as the item is referred to; empty if they are in several
  // chunks: then read() them.
  virtual ByteView view(const ItemRef& item, size_t offset, size_t bytes) const = 0;
  virtual void write(const ItemRef& item, size_t offset, ByteView in) = 0;
  // Whether this reference to a linked item is the only one: while its latch keeps others from
  // finding it, it may be written. False may be said without a reason.
  virtual bool is_unshared(const ItemRef& item) const = 0;

  // Visits linked items until about 1,000 hash buckets were visited or `visit` returned false;
  // returns the cursor to go on from, 0 at the end (walk.h). A key that has an item during the
  // whole walk, be it replaced meanwhile, is visited at least once. `visit` may call key(),
  // value_bytes() and read() of the item that it is given, nothing else of the store. No latch is
  // held.
  virtual uint64_t walk(uint64_t cursor, const std::function<bool(const ItemRef&)>& visit) = 0;

  // Memory: what is used (waste included), what there is, and what new data can still take.
  struct Memory {
    uint64_t used_bytes = 0;
    uint64_t limit_bytes = 0;
    uint64_t free_bytes = 0;
  };
  virtual Memory memory() const = 0;

 private:
  friend class ItemRef;
  virtual void release(void* item) = 0;
};

inline ItemRef::~ItemRef() {
  if (item_ != nullptr) store_->release(item_);
}

}  // namespace elastripe::node
