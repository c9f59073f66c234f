#include "proxy/cluster/record_cache.h"

namespace elastripe {

namespace {

// What an entry costs, roughly: exactness buys nothing here.
size_t bytes_of(std::string_view key, const node::Record& record) {
  size_t bytes = 256 + 2 * key.size() + record.content.value.size();
  for (const auto& segment : record.content.segments) {
    bytes += sizeof(segment) + segment.placement.size() * sizeof(node::NodeId) +
             segment.moved.size() * sizeof(node::MovedShard);
  }
  return bytes;
}

}  // namespace

RecordPtr RecordCache::find(std::string_view key) {
  const auto it = index_.find(key);
  if (it == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->record;
}

void RecordCache::put(std::string_view key, RecordPtr record) {
  const auto it = index_.find(key);
  if (it != index_.end()) {
    if (it->second->record->meta.version >= record->meta.version) return;
    drop(it->second);
  }
  if (record->content.kind != node::RecordKind::kStriped) return;
  const size_t bytes = bytes_of(key, *record);
  entries_.push_front({std::string(key), std::move(record), bytes});
  index_.emplace(entries_.front().key, entries_.begin());
  bytes_ += bytes;
  while (bytes_ > max_bytes_) drop(std::prev(entries_.end()));
}

void RecordCache::erase(std::string_view key) {
  const auto it = index_.find(key);
  if (it != index_.end()) drop(it->second);
}

void RecordCache::drop(std::list<Entry>::iterator entry) {
  bytes_ -= entry->bytes;
  index_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace elastripe
