// ParityLogs: what is to be added to parity shards and is not in them yet, by shard. For methods of
// updates that change shards in place (docs/updates.md, "Baselines").
//
// Any thread; a log belongs to whoever holds the latch of its shard.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "server-patches/node/format/shard.h"
#include "server-patches/node/update/log_pool.h"

namespace elastripe::node {

class ParityLogs {
 public:
  struct Entry {
    uint32_t offset = 0;  // in a parity shard
    // Those of the data shard that the bytes are of, one for each parity; empty: they are
    // multiplied.
    std::string coefficients = {};
    LogBytes bytes = {};
  };
  struct Log {
    std::vector<Entry> entries;
    size_t bytes = 0;
    bool waits = false;  // for a request that folds it
  };

  // Whether there is none at all, without a lock.
  bool empty() const { return count_ == 0; }
  // What the log has; 0 if there is none.
  size_t bytes(const ShardName& name) const;
  // The last word says whether it waits.
  void append(const ShardName& name, Entry entry, bool waits);
  // All that it has; it is gone.
  Log take(const ShardName& name);
  // Puts it back: under the latch nothing has come since.
  void restore(const ShardName& name, Log log);
  void drop(const ShardName& name) {
    if (!empty()) (void)take(name);
  }
  // Some, at most, that do not wait; the next call goes on behind them.
  std::vector<ShardName> next_names(size_t most);

 private:
  mutable std::mutex mutex_;
  std::map<ShardName, Log> logs_;  // guarded by mutex_, as is the last one that was named
  ShardName named_;
  std::atomic<size_t> count_ = 0;
};

}  // namespace elastripe::node
