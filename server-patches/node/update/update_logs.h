// UpdateLogs: the logs of a node, by key. In as many parts as the engine has latches: whoever holds
// the latch of a key may use its part.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "server-patches/node/format/cluster_map.h"
#include "server-patches/node/update/update_log.h"

namespace elastripe::node {

class UpdateLogs {
 public:
  struct Entry {
    UpdateLog log;
    uint32_t tenure = 0;  // of the partition, under which it was made: like a record's
    // Boottime: when it got the oldest of what it has, or was last folded; and the newest.
    uint64_t since_ms = 0;
    uint64_t written_ms = 0;
    uint64_t taken_until_ms = 0;  // a recycler that is folding it has so long
  };
  using Found = std::pair<const std::string, Entry>;

  // `parts`: a power of two.
  UpdateLogs(LogPool::Options options, ItemStore& store, size_t parts);

  LogPool& pool() { return pool_; }
  const LogPool& pool() const { return pool_; }

  // Null if there is none.
  Entry* find(std::string_view key);
  // The key has none.
  Entry& make(std::string_view key, UpdateLog log, uint32_t tenure, uint64_t now_ms);
  void drop(std::string_view key);

  size_t parts() const { return parts_.size(); }
  // Drops the log, as it is empty or as the key has another value. Who had sent updates of the old
  // one may ask whether they came before that: of few keys, and of the newest updates, it
  // remembers.
  void retire(std::string_view key);
  // The same where the log went before, as updates up to `folded_lsn` were in the shards.
  void retire_folded(std::string_view key, uint64_t value, uint32_t tenure, uint64_t folded_lsn);
  enum class Had : uint8_t { kYes, kNo, kForgotten };
  Had had(std::string_view key, uint64_t value, uint32_t tenure, const UpdateName& update) const;

  // All logs of a part, under its latch.
  void visit(size_t part, const std::function<void(const std::string&, Entry&)>& visitor);
  size_t count() const { return count_; }

 private:
  struct KeyHash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return hash_key(key); }
  };
  // What a log knew when it was retired.
  struct Former {
    std::string key;
    uint64_t value = 0;
    uint32_t tenure = 0;
    uint64_t reach = 0;  // it tells of no update up to this LSN
    uint64_t last = 0;
    std::vector<UpdateName> recent;
  };
  struct Part {
    std::unordered_map<std::string, Entry, KeyHash, std::equal_to<>> logs;
    std::deque<Former> formers;  // newest last
    uint64_t forgotten = 0;      // no former that was forgotten had an update above this LSN
  };
  void note(Former former);
  size_t place_of(std::string_view key) const { return hash_key(key) & (parts_.size() - 1); }
  Part& part_of(std::string_view key) { return parts_[place_of(key)]; }

  LogPool pool_;  // outlives the logs
  std::vector<Part> parts_;
  std::atomic<size_t> count_ = 0;
};

}  // namespace elastripe::node
