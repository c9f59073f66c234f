#include "server-patches/shim/memcached_item_store.h"

#include <vector>

#include "server-patches/node/engine/walk.h"
#include "server-patches/shim/items.h"

namespace elastripe::node {
namespace {

constexpr uint64_t kBucketsAtOnce = 1000;

}  // namespace

ItemRef MemcachedItemStore::find(std::string_view key) {
  return {this, items_find(key.data(), key.size())};
}

ItemRef MemcachedItemStore::use(std::string_view key, bool counts, Use& before) {
  items_use seen = {};
  ItemRef found{this, items_find_used(key.data(), key.size(), counts, &seen)};
  before = {.was_used = seen.was_used, .idle_s = seen.idle_s};
  return found;
}

ItemRef MemcachedItemStore::allocate(std::string_view key, size_t value_bytes, Urgency urgency) {
  // one at a time: what is admitted must not be taken by another before it is allocated
  const std::lock_guard lock(admission_);
  if (!pages_.admits(pages_needed(key.size(), value_bytes), urgency)) return {};
  return {this, items_allocate(key.data(), key.size(), value_bytes, ITEMS_FROM_PAGES)};
}

bool MemcachedItemStore::wait_for_room(size_t key_bytes, size_t value_bytes, Urgency urgency) {
  return pages_.wait_for_pages(pages_needed(key_bytes, value_bytes), urgency);
}

// What is replaced gives its memory back as soon as no reader holds it, so this takes more than
// there is by a page or two only.
ItemRef MemcachedItemStore::allocate_in_place(std::string_view key, size_t value_bytes) {
  const ItemRef replaced = find(key);
  if (!replaced || this->value_bytes(replaced) < value_bytes) return {};
  for (const items_source source : {ITEMS_ANY_CHUNK, ITEMS_ABOVE_LIMIT}) {
    if (void* item = items_allocate(key.data(), key.size(), value_bytes, source)) {
      return {this, item};
    }
  }
  return {};
}

void MemcachedItemStore::link(const ItemRef& item, bool stays) { items_link(item.get(), stays); }

bool MemcachedItemStore::remove(std::string_view key) {
  return items_remove(key.data(), key.size());
}

std::string_view MemcachedItemStore::key(const ItemRef& item) const {
  size_t bytes = 0;
  const char* data = items_key(item.get(), &bytes);
  return {data, bytes};
}

size_t MemcachedItemStore::value_bytes(const ItemRef& item) const {
  return items_value_bytes(item.get());
}

void MemcachedItemStore::read(const ItemRef& item, size_t offset, MutableByteView out) const {
  items_read(item.get(), offset, out.data(), out.size());
}

ByteView MemcachedItemStore::view(const ItemRef& item, size_t offset, size_t bytes) const {
  const char* value = items_value(item.get());
  if (value == nullptr) return {};
  return {reinterpret_cast<const std::byte*>(value) + offset, bytes};
}

void MemcachedItemStore::write(const ItemRef& item, size_t offset, ByteView in) {
  items_write(item.get(), offset, in.data(), in.size());
}

bool MemcachedItemStore::is_unshared(const ItemRef& item) const {
  return items_is_unshared(item.get());
}

uint64_t MemcachedItemStore::walk(uint64_t cursor,
                                  const std::function<bool(const ItemRef&)>& visit) {
  const uint64_t count = items_buckets();
  bool go_on = true;
  const auto watched = [&](const ItemRef& item) { return go_on = visit(item) && go_on; };
  std::vector<void*> found(16);
  std::vector<ItemRef> items;
  for (uint64_t n = 0; n < kBucketsAtOnce && go_on; ++n) {
    const uint64_t bucket = bucket_of_cursor(cursor);
    if (bucket >= count) break;
    if (items_stretch_is_empty(bucket)) {
      cursor = cursor_of_bucket((bucket / ITEMS_STRETCH + 1) * ITEMS_STRETCH);
      continue;
    }
    size_t in_bucket = 0;
    for (;;) {
      items.reserve(found.size());
      in_bucket = items_of_bucket(bucket, found.data(), found.size());
      if (in_bucket <= found.size()) break;
      found.resize(in_bucket);
    }
    for (size_t i = 0; i < in_bucket; ++i) items.emplace_back(this, found[i]);
    // Here the bucket is not locked: a visitor's last reference takes the item lock again.
    cursor = visit_bucket(*this, items, cursor, watched);
    items.clear();
  }
  return bucket_of_cursor(cursor) < count ? cursor : 0;
}

void MemcachedItemStore::release(void* item) { items_release(item); }

}  // namespace elastripe::node
