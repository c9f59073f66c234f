#include "proxy/session/server_stats.h"

#include <event2/event.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "proxy/base/metric_names.h"
#include "proxy/memcache/compose.h"
#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

constexpr std::array<std::string_view, kStatCount> kStatNames = {
    "cmd_get",       "cmd_set",           "cmd_flush",
    "cmd_touch",     "get_hits",          "get_misses",
    "delete_misses", "delete_hits",       "incr_misses",
    "incr_hits",     "decr_misses",       "decr_hits",
    "cas_misses",    "cas_hits",          "cas_badval",
    "touch_hits",    "touch_misses",      "bytes_read",
    "bytes_written", "total_connections", "rejected_connections"};
constexpr std::array<const char*, kCommandStatusCount> kStatusNames = {
    "ok", "miss", "refused", "client_error", "server_error"};
constexpr std::array<const char*, 3> kPathNames = {"inline", "striped", "degraded"};

std::string seconds_text(const timeval& time) {
  return fmt::format("{}.{:06}", time.tv_sec, time.tv_usec);
}

void compose_all(memcache::Output& output, const StatPairs& pairs) {
  for (const auto& [stat, value] : pairs) memcache::compose_stat(output, stat, value);
}

}  // namespace

std::string_view name(Stat stat) { return kStatNames[static_cast<size_t>(stat)]; }

WorkerStats::WorkerStats(MetricRegistry& registry)
    : received_(registry.counter(metric_names::kReceivedBytes)),
      sent_(registry.counter(metric_names::kSentBytes)),
      connections_(registry.gauge(metric_names::kConnections)),
      connections_total_(registry.counter(metric_names::kConnectionsTotal)),
      connections_refused_(registry.counter(metric_names::kConnectionsRefused)),
      connections_cut_(registry.counter(metric_names::kConnectionsCut)) {
  for (size_t command = 0; command < memcache::kCommandCount; ++command) {
    const std::string label(memcache::name(static_cast<memcache::Command>(command)));
    for (size_t status = 0; status < kCommandStatusCount; ++status) {
      commands_[command][status] = &registry.counter(
          metric_names::kCommands, {{"command", label}, {"status", kStatusNames[status]}});
    }
    for (size_t path = 0; path < kPathNames.size(); ++path) {
      durations_[command][path] =
          &registry.histogram(metric_names::kRequestDuration, metric_names::kDurationBounds,
                              {{"command", label}, {"path", kPathNames[path]}});
    }
  }
}

void WorkerStats::command(memcache::Command command, CommandStatus status, ReadPath path,
                          double seconds) {
  const auto index = static_cast<size_t>(command);
  commands_[index][static_cast<size_t>(status)]->add();
  durations_[index][static_cast<size_t>(path)]->observe(seconds);
}

void WorkerStats::received(uint64_t bytes) {
  add(Stat::kBytesRead, bytes);
  received_.add(bytes);
}
void WorkerStats::sent(uint64_t bytes) {
  add(Stat::kBytesWritten, bytes);
  sent_.add(bytes);
}
void WorkerStats::connection_opened() {
  add(Stat::kTotalConnections);
  connections_total_.add();
  connections_.add(1);
}
void WorkerStats::connection_closed() { connections_.add(-1); }
void WorkerStats::connection_cut() { connections_cut_.add(); }

void WorkerStats::connection_refused() {
  add(Stat::kRejectedConnections);
  connections_refused_.add();
}

ServerStats::ServerStats(MetricRegistry& registry, size_t workers) {
  for (size_t i = 0; i < workers; ++i) workers_.push_back(std::make_unique<WorkerStats>(registry));
}

bool ServerStats::try_open(uint32_t limit) {
  limit_.store(limit, std::memory_order_relaxed);
  if (open_.fetch_add(1, std::memory_order_relaxed) < limit) return true;
  open_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

uint64_t ServerStats::total(Stat stat) const {
  uint64_t total = 0;
  for (const auto& worker : workers_) total += worker->value(stat);
  return total;
}

// A reset of another worker between the two reads leaves the baseline above the total.
uint64_t ServerStats::since_reset(Stat stat) const {
  const uint64_t now = total(stat);
  return now - std::min(now, baseline_[static_cast<size_t>(stat)].load(std::memory_order_relaxed));
}

// Metrics never go back; only what `stats` shows starts again. Two at once store about the same.
void ServerStats::reset() {
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    baseline_[stat].store(total(static_cast<Stat>(stat)), std::memory_order_relaxed);
  }
}

void ServerStats::answer_general(memcache::Output& output) const {
  const std::time_t now = std::time(nullptr);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  compose_all(output,
              {{"pid", std::to_string(getpid())},
               {"uptime", std::to_string(now - started_)},
               {"time", std::to_string(now)},
               {"version", version},
               {"libevent", event_get_version()},
               {"pointer_size", std::to_string(8 * sizeof(void*))},
               {"rusage_user", seconds_text(usage.ru_utime)},
               {"rusage_system", seconds_text(usage.ru_stime)},
               {"max_connections", std::to_string(limit_.load(std::memory_order_relaxed))},
               {"curr_connections", std::to_string(open_.load(std::memory_order_relaxed))}});
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    const auto which = static_cast<Stat>(stat);
    memcache::compose_stat(output, name(which), std::to_string(since_reset(which)));
  }
  memcache::compose_stat(output, "threads", std::to_string(workers_.size()));
}

bool ServerStats::answer(std::string_view argument, memcache::Output& output) {
  if (argument.empty()) {
    answer_general(output);
  } else if (argument == "settings") {
    if (settings) compose_all(output, settings());
  } else if (argument == "elastripe") {
    if (cluster) compose_all(output, cluster());
  } else if (argument == "items") {
    // The items lie on the nodes: an empty list keeps exporters working.
  } else if (argument == "slabs") {
    memcache::compose_stat(output, "active_slabs", "0");
    memcache::compose_stat(output, "total_malloced", "0");
  } else if (argument == "reset") {
    reset();
    memcache::compose_line(output, memcache::replies::kReset);
    return true;
  } else {
    return false;
  }
  memcache::compose_line(output, memcache::replies::kEnd);
  return true;
}

}  // namespace elastripe
