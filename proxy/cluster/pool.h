// Pools: key prefixes and how their objects are stored.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coding/scheme.h"
#include "proxy/base/write_state.h"

namespace elastripe {

// How parts of striped objects are updated (docs/updates.md).
enum class UpdateMethod : uint8_t {
  kOff,   // each update is written into the shards at once
  kHome,  // by an update log at the homes of the record
  // Baselines, which change shards in place (docs/updates.md, "Baselines"):
  kFo,     // data and parities at once
  kPl,     // parities by a log at their node, folded in the background
  kPlr,    // by a log of fixed size for each parity shard, folded by who finds it full
  kCord,   // by a log of fixed size at the first parity's node, for all parities
  kDpu,    // later, by what the data's node keeps and flushes
  kTsue,   // the same, by way of a collector and of logs at all parities' nodes
  kTsue2,  // the same without the collector
  kParix,  // by logs of what the data was and is
};
constexpr bool is_in_place(UpdateMethod method) { return method >= UpdateMethod::kFo; }
// How many nodes have an update before it is acknowledged.
enum class LogCopies : uint8_t {
  kAll,  // m + 1: it survives m crashes
  kTwo,  // one crash
};

// How many rounds an update takes.
enum class LogRounds : uint8_t {
  kOne,  // tail and copies at once; the copies get to know the number afterwards
  kTwo,  // the tail numbers it, then the copies store it under that number
};

struct Pool {
  std::string prefix;  // of its keys; empty for the default pool
  coding::Scheme scheme;
  uint32_t inline_max_bytes = 16 << 10;  // objects up to this live whole in their record
  uint32_t segment_bytes = 4 << 20;
  bool degraded_writes = false;
  bool unreadable_is_miss = false;  // to clients; else an error
  WriteState write_state = WriteState::kNarrow;
  UpdateMethod updates = UpdateMethod::kHome;
  LogCopies log_copies = LogCopies::kAll;
  LogRounds log_rounds = LogRounds::kOne;

  friend bool operator==(const Pool&, const Pool&) = default;
};

// Where an object of that size lives: in its record, or in shards.
enum class Storage : uint8_t { kInline, kStriped };
inline Storage storage_of(const Pool& pool, uint64_t size) {
  return size <= pool.inline_max_bytes ? Storage::kInline : Storage::kStriped;
}

// One pool has the empty prefix. Not thread-safe.
class PoolTable {
 public:
  explicit PoolTable(std::vector<Pool> pools);

  // From now on. Flows refer to the pools of before, so these are kept: it is for operators, not
  // for programs.
  void replace(std::vector<Pool> pools);

  // The pool with the longest prefix of the key. Lives as long as the table.
  const Pool& pool_of(std::string_view key) const;
  const std::vector<Pool>& pools() const { return versions_.back(); }
  int max_parities() const;  // M: the largest m of any pool

 private:
  std::deque<std::vector<Pool>> versions_;  // each with the longest prefix first
};

}  // namespace elastripe
