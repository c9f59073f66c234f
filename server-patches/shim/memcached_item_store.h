// The ItemStore of the real node: memcached's items, hash table and slabs.
#pragma once

#include <mutex>

#include "server-patches/node/store/item_store.h"
#include "server-patches/shim/page_keeper.h"

namespace elastripe::node {

// Threads: as ItemStore says. No call holds more than one of memcached's item locks, and none is
// held on return.
class MemcachedItemStore final : public ItemStore {
 public:
  ItemRef find(std::string_view key) override;
  ItemRef use(std::string_view key, bool counts, Use& before) override;
  ItemRef allocate(std::string_view key, size_t value_bytes, Urgency urgency) override;
  ItemRef allocate_in_place(std::string_view key, size_t value_bytes) override;
  bool wait_for_room(size_t key_bytes, size_t value_bytes, Urgency urgency) override;
  void link(const ItemRef& item, bool stays) override;
  bool remove(std::string_view key) override;

  std::string_view key(const ItemRef& item) const override;
  size_t value_bytes(const ItemRef& item) const override;
  void read(const ItemRef& item, size_t offset, MutableByteView out) const override;
  ByteView view(const ItemRef& item, size_t offset, size_t bytes) const override;
  void write(const ItemRef& item, size_t offset, ByteView in) override;
  bool is_unshared(const ItemRef& item) const override;

  // The table never grows, so that cursors stay right.
  uint64_t walk(uint64_t cursor, const std::function<bool(const ItemRef&)>& visit) override;

  Memory memory() const override { return pages_.memory(); }
  uint64_t moved_pages() const { return pages_.moved_pages(); }

 private:
  void release(void* item) override;

  PageKeeper pages_;
  std::mutex admission_;
};

}  // namespace elastripe::node
