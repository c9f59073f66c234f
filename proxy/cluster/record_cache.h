// RecordCache: the records that a worker has seen lately. A cached record is only ever a guess:
// reads check it with the tail (if_version), commits with the head.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proxy/cluster/record_ptr.h"

namespace elastripe {

// Bounded by bytes, least recently used first out. One per worker; not thread-safe.
// Holds striped records only: an inline one is its own value, so a cached copy saves no round.
class RecordCache {
 public:
  explicit RecordCache(size_t max_bytes) : max_bytes_(max_bytes) {}
  void resize(size_t max_bytes);

  RecordPtr find(std::string_view key);
  // Keeps the newer of the two.
  void put(std::string_view key, RecordPtr record);
  void erase(std::string_view key);
  // The highest LSN of the key's updates that is known, of one that has a record here; else 0.
  uint64_t last_lsn(std::string_view key) const;
  void note_lsn(std::string_view key, uint64_t lsn);
  // The same of updates that clients of the worker were told to be made.
  uint64_t acknowledged_lsn(std::string_view key) const;
  void note_acknowledged(std::string_view key, uint64_t lsn);
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string key;
    RecordPtr record;
    size_t bytes;
    uint64_t last_lsn = 0;
    uint64_t acknowledged_lsn = 0;
  };
  void drop(std::list<Entry>::iterator entry);
  void fit();

  size_t max_bytes_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index_;  // keys lie in entries_
};

}  // namespace elastripe
