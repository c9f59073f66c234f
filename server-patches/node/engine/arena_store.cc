#include "server-patches/node/engine/arena_store.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "server-patches/node/engine/item_formats.h"
#include "server-patches/node/engine/walk.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe::node {

// The key and the value follow the item in memory.
struct ArenaStore::Item {
  std::atomic<uint32_t> references = 1;  // one of them is the bucket's, while linked
  Item* next = nullptr;
  bool was_used = false;  // guarded by the store's mutex
  size_t key_bytes = 0;
  size_t value_bytes = 0;

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  std::string_view key() { return {reinterpret_cast<const char*>(data()), key_bytes}; }
  MutableByteView value() { return {data() + key_bytes, value_bytes}; }
};

ArenaStore::ArenaStore(Options options) : options_(options), buckets_(options.buckets) {}

ArenaStore::~ArenaStore() {
  for (Item* item : buckets_) {
    while (item != nullptr) release(std::exchange(item, item->next));
  }
}

size_t ArenaStore::cost(size_t key_bytes, size_t value_bytes) {
  return sizeof(Item) + key_bytes + value_bytes;
}

ArenaStore::Item** ArenaStore::place_of(std::string_view key) {
  Item** place = &buckets_[hash_key(key) % buckets_.size()];
  while (*place != nullptr && (*place)->key() != key) place = &(*place)->next;
  return place;
}

ItemRef ArenaStore::find(std::string_view key) {
  std::lock_guard lock(mutex_);
  Item* item = *place_of(key);
  if (item == nullptr) return {};
  item->references.fetch_add(1, std::memory_order_relaxed);
  return {this, item};
}

ItemRef ArenaStore::use(std::string_view key, bool counts, Use& before) {
  std::lock_guard lock(mutex_);
  Item* item = *place_of(key);
  if (item == nullptr) return {};
  before = {.was_used = item->was_used};
  item->was_used |= counts;
  item->references.fetch_add(1, std::memory_order_relaxed);
  return {this, item};
}

ItemRef ArenaStore::allocate(std::string_view key, size_t value_bytes, Urgency urgency) {
  const size_t bytes = cost(key.size(), value_bytes);
  const size_t limit = options_.limit_bytes - kept_of_reserve(urgency, options_.reserve_bytes);
  {
    std::lock_guard lock(mutex_);
    if (used_bytes_ + bytes > limit) return {};
    used_bytes_ += bytes;
  }
  return make(key, value_bytes);
}

ItemRef ArenaStore::allocate_in_place(std::string_view key, size_t value_bytes) {
  {
    std::lock_guard lock(mutex_);
    const Item* replaced = *place_of(key);
    if (replaced == nullptr || replaced->value_bytes < value_bytes) return {};
    used_bytes_ += cost(key.size(), value_bytes);
  }
  return make(key, value_bytes);
}

ItemRef ArenaStore::make(std::string_view key, size_t value_bytes) {
  Item* item = new (::operator new(cost(key.size(), value_bytes))) Item;
  item->key_bytes = key.size();
  item->value_bytes = value_bytes;
  std::memcpy(item->data(), key.data(), key.size());
  return {this, item};
}

void ArenaStore::link(const ItemRef& ref, bool stays) {
  Item* item = static_cast<Item*>(ref.get());
  Item* replaced = nullptr;
  {
    std::lock_guard lock(mutex_);
    Item** place = place_of(item->key());
    replaced = *place;
    item->references.fetch_add(1, std::memory_order_relaxed);
    item->next = replaced == nullptr ? nullptr : replaced->next;
    item->was_used = stays && replaced != nullptr && replaced->was_used;
    *place = item;
  }
  if (replaced != nullptr) release(replaced);
}

bool ArenaStore::remove(std::string_view key) {
  Item* removed = nullptr;
  {
    std::lock_guard lock(mutex_);
    Item** place = place_of(key);
    removed = *place;
    if (removed == nullptr) return false;
    *place = removed->next;
  }
  release(removed);
  return true;
}

std::string_view ArenaStore::key(const ItemRef& item) const {
  return static_cast<Item*>(item.get())->key();
}

size_t ArenaStore::value_bytes(const ItemRef& item) const {
  return static_cast<Item*>(item.get())->value_bytes;
}

void ArenaStore::read(const ItemRef& item, size_t offset, MutableByteView out) const {
  const MutableByteView value = static_cast<Item*>(item.get())->value();
  if (offset > value.size() || out.size() > value.size() - offset) std::abort();
  if (!out.empty()) std::memcpy(out.data(), value.data() + offset, out.size());
}

ByteView ArenaStore::view(const ItemRef& item, size_t offset, size_t bytes) const {
  const ByteView value = static_cast<Item*>(item.get())->value();
  if (offset > value.size() || bytes > value.size() - offset) std::abort();
  return value.size() > options_.view_max_bytes ? ByteView() : value.subspan(offset, bytes);
}

void ArenaStore::write(const ItemRef& item, size_t offset, ByteView in) {
  const MutableByteView value = static_cast<Item*>(item.get())->value();
  if (offset > value.size() || in.size() > value.size() - offset) std::abort();
  if (!in.empty()) std::memcpy(value.data() + offset, in.data(), in.size());
}

bool ArenaStore::is_unshared(const ItemRef& item) const {
  return static_cast<Item*>(item.get())->references.load(std::memory_order_acquire) == 2;
}

uint64_t ArenaStore::walk(uint64_t cursor, const std::function<bool(const ItemRef&)>& visit) {
  const size_t count = buckets_.size();
  bool go_on = true;
  const auto watched = [&](const ItemRef& item) { return go_on = visit(item) && go_on; };
  std::vector<ItemRef> items;
  for (size_t n = 0; n < options_.buckets_per_walk && go_on; ++n) {
    const uint64_t bucket = bucket_of_cursor(cursor);
    if (bucket >= count) break;
    {
      std::lock_guard lock(mutex_);
      for (Item* item = buckets_[bucket]; item != nullptr; item = item->next) {
        item->references.fetch_add(1, std::memory_order_relaxed);
        items.emplace_back(this, item);
      }
    }
    cursor = visit_bucket(*this, items, cursor, watched);
    items.clear();
  }
  return bucket_of_cursor(cursor) < count ? cursor : 0;
}

ItemStore::Memory ArenaStore::memory() const {
  const size_t used = used_bytes_;
  const size_t soft_limit = options_.limit_bytes - options_.reserve_bytes;
  return {.used_bytes = used,
          .limit_bytes = options_.limit_bytes,
          .free_bytes = soft_limit > used ? soft_limit - used : 0};
}

std::string ArenaStore::corrupt(uint64_t seed) {
  std::lock_guard lock(mutex_);
  std::vector<Item*> records;
  for (Item* first : buckets_) {
    for (Item* item = first; item != nullptr; item = item->next) {
      const std::string_view key = item->key();
      if (!key.empty() && key.front() == kRecordTag && item->value_bytes > 0) {
        records.push_back(item);
      }
    }
  }
  if (records.empty()) return {};
  Item* item = records[seed % records.size()];
  const uint64_t bit = seed / records.size() % (8 * item->value_bytes);
  item->value()[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  return std::string(item->key().substr(1));
}

void ArenaStore::release(void* pointer) {
  Item* item = static_cast<Item*>(pointer);
  if (item->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  used_bytes_ -= cost(item->key_bytes, item->value_bytes);
  std::destroy_at(item);
  ::operator delete(item);
}

}  // namespace elastripe::node
