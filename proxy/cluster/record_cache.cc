#include "proxy/cluster/record_cache.h"

#include <algorithm>

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
  uint64_t last_lsn = 0, acknowledged_lsn = 0;
  if (it != index_.end()) {
    if (it->second->record->meta.version >= record->meta.version) return;
    last_lsn = it->second->last_lsn;
    acknowledged_lsn = it->second->acknowledged_lsn;
    drop(it->second);
  }
  if (record->content.kind != node::RecordKind::kStriped) return;
  const size_t bytes = bytes_of(key, *record);
  entries_.push_front({std::string(key), std::move(record), bytes, last_lsn, acknowledged_lsn});
  index_.emplace(entries_.front().key, entries_.begin());
  bytes_ += bytes;
  fit();
}

void RecordCache::resize(size_t max_bytes) {
  max_bytes_ = max_bytes;
  fit();
}

void RecordCache::fit() {
  while (bytes_ > max_bytes_) drop(std::prev(entries_.end()));
}

void RecordCache::erase(std::string_view key) {
  const auto it = index_.find(key);
  if (it != index_.end()) drop(it->second);
}

uint64_t RecordCache::last_lsn(std::string_view key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? 0 : it->second->last_lsn;
}

void RecordCache::note_lsn(std::string_view key, uint64_t lsn) {
  const auto it = index_.find(key);
  if (it != index_.end()) it->second->last_lsn = std::max(it->second->last_lsn, lsn);
}

uint64_t RecordCache::acknowledged_lsn(std::string_view key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? 0 : it->second->acknowledged_lsn;
}

void RecordCache::note_acknowledged(std::string_view key, uint64_t lsn) {
  const auto it = index_.find(key);
  if (it == index_.end()) return;
  it->second->acknowledged_lsn = std::max(it->second->acknowledged_lsn, lsn);
}

void RecordCache::drop(std::list<Entry>::iterator entry) {
  bytes_ -= entry->bytes;
  index_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace elastripe
