// ServerStats: what `stats` tells, over all workers; and the metrics of client commands.
#pragma once

#include <array>
#include <atomic>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/base/metrics.h"
#include "proxy/memcache/output.h"
#include "proxy/memcache/request.h"
#include "proxy/ops/outcome.h"

namespace elastripe {

// memcached's names, in its order of `stats`.
enum class Stat : uint8_t {
  kCmdGet,
  kCmdSet,
  kCmdFlush,
  kCmdTouch,
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
  kBytesRead,
  kBytesWritten,
  kTotalConnections,
  kRejectedConnections,
};
inline constexpr size_t kStatCount = static_cast<size_t>(Stat::kRejectedConnections) + 1;
std::string_view name(Stat stat);

// How a command ended, for metrics.
enum class CommandStatus : uint8_t { kOk, kMiss, kRefused, kClientError, kServerError };
inline constexpr size_t kCommandStatusCount = 5;

// The cells of one worker: only its thread adds.
class WorkerStats {
 public:
  explicit WorkerStats(MetricRegistry& registry);

  void add(Stat stat, uint64_t n = 1) { stats_[static_cast<size_t>(stat)].add(n); }
  uint64_t value(Stat stat) const { return stats_[static_cast<size_t>(stat)].value(); }
  void command(memcache::Command command, CommandStatus status, ReadPath path, double seconds);
  void received(uint64_t bytes);
  void sent(uint64_t bytes);
  void connection_opened();
  void connection_closed();
  void connection_refused();
  // A client that was too slow.
  void connection_cut();

 private:
  std::array<Counter, kStatCount> stats_;
  std::array<std::array<Counter*, kCommandStatusCount>, memcache::kCommandCount> commands_;
  std::array<std::array<Histogram*, 3>, memcache::kCommandCount> durations_;
  Counter& received_;
  Counter& sent_;
  Gauge& connections_;
  Counter& connections_total_;
  Counter& connections_refused_;
  Counter& connections_cut_;
};

// What `stats settings` and `stats elastripe` tell.
using StatPairs = std::vector<std::pair<std::string, std::string>>;

// Shared by all workers; made before they start.
class ServerStats {
 public:
  ServerStats(MetricRegistry& registry, size_t workers);

  WorkerStats& worker(size_t index) { return *workers_[index]; }
  // A new connection, unless `limit` are open.
  bool try_open(uint32_t limit);
  void close_one() { open_.fetch_sub(1, std::memory_order_relaxed); }

  // Set before the workers start; called on any of their threads.
  std::function<StatPairs()> settings;
  std::function<StatPairs()> cluster;
  std::string version = "1.6.18-elastripe-0.1.0";

  // The answer to `stats argument`, with its END or RESET; false if the argument is unknown.
  bool answer(std::string_view argument, memcache::Output& output);

 private:
  void answer_general(memcache::Output& output) const;
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
