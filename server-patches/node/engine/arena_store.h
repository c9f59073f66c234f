// An ItemStore in plain memory with a bound, for tests and for the simulator. A fixed number of
// hash buckets; one mutex guards them. Any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "server-patches/node/store/item_store.h"

namespace elastripe::node {

class ArenaStore final : public ItemStore {
 public:
  struct Options {
    size_t limit_bytes = 64u << 20;
    size_t reserve_bytes = 1u << 20;  // part of the limit that new data can not take
    size_t buckets = 4096;
    // Longer values have no view, as if they were in chunks.
    size_t view_max_bytes = 64u << 10;
    size_t buckets_per_walk = 1000;
  };

  explicit ArenaStore(Options options);
  ~ArenaStore() override;
  ArenaStore(const ArenaStore&) = delete;
  ArenaStore& operator=(const ArenaStore&) = delete;

  ItemRef find(std::string_view key) override;
  // Has no clock: idle_s is 0.
  ItemRef use(std::string_view key, bool counts, Use& before) override;
  ItemRef allocate(std::string_view key, size_t value_bytes, Urgency urgency) override;
  ItemRef allocate_in_place(std::string_view key, size_t value_bytes) override;
  bool wait_for_room(size_t, size_t, Urgency) override { return false; }
  void link(const ItemRef& item, bool stays = false) override;
  bool remove(std::string_view key) override;

  std::string_view key(const ItemRef& item) const override;
  size_t value_bytes(const ItemRef& item) const override;
  void read(const ItemRef& item, size_t offset, MutableByteView out) const override;
  ByteView view(const ItemRef& item, size_t offset, size_t bytes) const override;
  void write(const ItemRef& item, size_t offset, ByteView in) override;
  bool is_unshared(const ItemRef& item) const override;

  uint64_t walk(uint64_t cursor, const std::function<bool(const ItemRef&)>& visit) override;
  Memory memory() const override;

  // For tests, as memory that fails: flips one bit of the value of a linked record item. `seed`
  // chooses the item and the bit. Returns the object's key; empty if there is no such item.
  std::string corrupt(uint64_t seed);

  // What an item takes of the limit.
  static size_t cost(size_t key_bytes, size_t value_bytes);

 private:
  struct Item;

  void release(void* item) override;
  ItemRef make(std::string_view key, size_t value_bytes);  // its bytes are counted already
  // The place that points to the item of `key`, or to null at the end of its bucket.
  Item** place_of(std::string_view key);

  const Options options_;
  std::atomic<size_t> used_bytes_ = 0;
  std::mutex mutex_;
  std::vector<Item*> buckets_;  // guarded by mutex_, as are the items' `next`
};

}  // namespace elastripe::node
