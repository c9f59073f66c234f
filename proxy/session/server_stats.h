// ServerStats: what `stats` tells, over all workers; and the metrics of client commands.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/metrics.h"
#include "proxy/memcache/request.h"
#include "proxy/session/command_outcome.h"

namespace elastripe {

// What is counted for `stats`; memcached's names, in its order.
enum class Stat : uint8_t {
  kCmdGet,
  kCmdSet,
  kCmdFlush,
  kCmdTouch,
  kCmdMeta,
  kGetHits,
  kGetMisses,
  kDeleteMisses,
  kDeleteHits,
  kIncrMisses,
  kIncrHits,
  kDecrMisses,
  kDecrHits,
  kCasMisses,
  kCasHits,
  kCasBadval,
  kTouchHits,
  kTouchMisses,
  kStoreTooLarge,
  kStoreNoMemory,
  kAuthCmds,
  kAuthErrors,
  kBytesRead,
  kBytesWritten,
  kTotalConnections,
  kRejectedConnections,
  kTotalItems,
};
using StatName = std::pair<Stat, std::string_view>;
inline constexpr std::array kStats{
    StatName{Stat::kCmdGet, "cmd_get"},
    StatName{Stat::kCmdSet, "cmd_set"},
    StatName{Stat::kCmdFlush, "cmd_flush"},
    StatName{Stat::kCmdTouch, "cmd_touch"},
    StatName{Stat::kCmdMeta, "cmd_meta"},
    StatName{Stat::kGetHits, "get_hits"},
    StatName{Stat::kGetMisses, "get_misses"},
    StatName{Stat::kDeleteMisses, "delete_misses"},
    StatName{Stat::kDeleteHits, "delete_hits"},
    StatName{Stat::kIncrMisses, "incr_misses"},
    StatName{Stat::kIncrHits, "incr_hits"},
    StatName{Stat::kDecrMisses, "decr_misses"},
    StatName{Stat::kDecrHits, "decr_hits"},
    StatName{Stat::kCasMisses, "cas_misses"},
    StatName{Stat::kCasHits, "cas_hits"},
    StatName{Stat::kCasBadval, "cas_badval"},
    StatName{Stat::kTouchHits, "touch_hits"},
    StatName{Stat::kTouchMisses, "touch_misses"},
    StatName{Stat::kStoreTooLarge, "store_too_large"},
    StatName{Stat::kStoreNoMemory, "store_no_memory"},
    StatName{Stat::kAuthCmds, "auth_cmds"},
    StatName{Stat::kAuthErrors, "auth_errors"},
    StatName{Stat::kBytesRead, "bytes_read"},
    StatName{Stat::kBytesWritten, "bytes_written"},
    StatName{Stat::kTotalConnections, "total_connections"},
    StatName{Stat::kRejectedConnections, "rejected_connections"},
    StatName{Stat::kTotalItems, "total_items"},
};
inline constexpr size_t kStatCount = kStats.size();
static_assert(kStatCount == static_cast<size_t>(Stat::kTotalItems) + 1 &&
              std::ranges::is_sorted(kStats, std::ranges::less_equal(), &StatName::first));

// How a command ended, for metrics.
enum class CommandStatus : uint8_t { kOk, kMiss, kRefused, kClientError, kServerError };
inline constexpr size_t kCommandStatusCount = 5;

// The cells of one worker: only its thread adds.
class WorkerStats {
 public:
  explicit WorkerStats(MetricRegistry& registry);

  void add(Stat stat, uint64_t n = 1) { stats_[static_cast<size_t>(stat)].add(n); }
  uint64_t value(Stat stat) const { return stats_[static_cast<size_t>(stat)].value(); }
  void command(memcache::Command command, CommandStatus status, objects::ReadPath path,
               double seconds);
  void received(uint64_t bytes);
  void sent(uint64_t bytes);
  void unreadable_key(bool as_miss);
  void connection_opened();
  void connection_closed();
  void connection_refused();
  void handshake_failed();
  void login_failed();
  // A client that was too slow.
  void connection_cut();

 private:
  std::array<Counter, kStatCount> stats_;
  std::array<std::array<Counter*, kCommandStatusCount>, memcache::kCommandCount> commands_;
  std::array<std::array<Histogram*, 3>, memcache::kCommandCount> durations_;
  std::array<Counter*, 2> unreadable_keys_;  // answered by an error, by a miss
  Counter& received_;
  Counter& sent_;
  Gauge& connections_;
  Counter& connections_total_;
  Counter& connections_refused_;
  Counter& connections_cut_;
  Counter& handshakes_failed_;
  Counter& logins_failed_;
};

// What the nodes that are up hold, by their last heartbeats.
struct StoredItems {
  uint64_t items = 0;        // about: records by the number of their homes
  uint64_t bytes = 0;        // of records and shards, with their redundancy
  uint64_t used_bytes = 0;   // memory that these take
  uint64_t limit_bytes = 0;  // memory that there is for them
};

// Shared by all workers; made before they start.
class ServerStats {
 public:
  ServerStats(MetricRegistry& registry, size_t workers);

  WorkerStats& worker(size_t index) { return *workers_[index]; }
  // A new connection, unless `limit` are open.
  bool try_open(uint32_t limit);
  void close_one() { open_.fetch_sub(1, std::memory_order_relaxed); }

  // Set before the workers start; called on any of their threads.
  std::function<StatPairs()> settings = [] { return StatPairs{}; };
  std::function<StatPairs()> cluster = [] { return StatPairs{}; };
  std::function<StoredItems()> stored = [] { return StoredItems{}; };
  std::string version = "1.6.18-elastripe-0.1.0";

  // What `stats argument` comes to.
  CommandOutcome answer(std::string_view argument);

 private:
  StatPairs general() const;
  std::optional<StatPairs> list(std::string_view what) const;
  uint64_t total(Stat stat) const;  // over all workers, since the start
  uint64_t since_reset(Stat stat) const;
  void reset();

  const std::time_t started_ = std::time(nullptr);
  std::vector<std::unique_ptr<WorkerStats>> workers_;
  std::array<std::atomic<uint64_t>, kStatCount> baseline_{};  // totals at `stats reset`
  std::atomic<uint32_t> open_ = 0;
  std::atomic<uint32_t> limit_ = 0;
};

}  // namespace elastripe
