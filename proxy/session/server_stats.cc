#include "proxy/session/server_stats.h"

#include <event2/event.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

namespace replies = memcache::replies;

constexpr CounterRow kCommands{
    "elastripe_commands_total", "Client commands answered.", {"command", "status"}};
// path: inline (records only), striped or degraded; of a store, by its value
constexpr HistogramRow kRequestDuration{{"elastripe_request_duration_seconds",
                                         "Time from a command read to its reply composed.",
                                         {"command", "path"}}};
// answered: error or miss
constexpr CounterRow kUnreadableKeys{"elastripe_unreadable_keys_total",
                                     "Keys that clients asked for and that could not be read then.",
                                     {"answered"}};
constexpr GaugeRow kConnections{"elastripe_client_connections", "Client connections open now."};
constexpr CounterRow kConnectionsTotal{"elastripe_client_connections_total",
                                       "Client connections accepted."};
constexpr CounterRow kConnectionsRefused{"elastripe_client_connections_refused_total",
                                         "Client connections refused at the limit."};
constexpr CounterRow kConnectionsCut{
    "elastripe_client_connections_cut_total",
    "Clients cut because they took or sent too little for too long."};
constexpr CounterRow kHandshakesFailed{"elastripe_client_tls_failures_total",
                                       "Clients with which no TLS came about."};
constexpr CounterRow kLoginsFailed{"elastripe_client_auth_failures_total",
                                   "Attempts of clients to log in that failed."};
constexpr CounterRow kReceivedBytes{"elastripe_client_received_bytes_total",
                                    "Bytes read from clients."};
constexpr CounterRow kSentBytes{"elastripe_client_sent_bytes_total", "Bytes written to clients."};

// What memcached counts and never happens here: nothing is evicted, connections above the limit are
// refused rather than left waiting, and there is no `watch` and no NAPI routing.
constexpr std::array<std::string_view, 14> kNeverCounted = {
    "evictions",           "evicted_unfetched",          "evicted_active",   "reclaimed",
    "listen_disabled_num", "time_in_listen_disabled_us", "conn_yields",      "log_worker_dropped",
    "log_worker_written",  "log_watcher_skipped",        "log_watcher_sent", "log_watchers",
    "unexpected_napi_ids", "round_robin_fallback"};
constexpr std::array<const char*, kCommandStatusCount> kStatusNames = {
    "ok", "miss", "refused", "client_error", "server_error"};
constexpr std::array<const char*, 3> kPathNames = {"inline", "striped", "degraded"};

std::string seconds_text(const timeval& time) {
  return fmt::format("{}.{:06}", time.tv_sec, time.tv_usec);
}

std::string_view first_word(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text.substr(0, text.find(' '));
}

// There are no statistics by prefix: they can be turned on and stay empty.
CommandOutcome detail(std::string_view action) {
  if (action == "on" || action == "off") return Accepted{};
  if (action == "dump") return StatPairs{};
  return replies::kBadDetail;
}

}  // namespace

WorkerStats::WorkerStats(MetricRegistry& registry)
    : unreadable_keys_{&registry.cell(kUnreadableKeys, {"error"}),
                       &registry.cell(kUnreadableKeys, {"miss"})},
      received_(registry.cell(kReceivedBytes)),
      sent_(registry.cell(kSentBytes)),
      connections_(registry.cell(kConnections)),
      connections_total_(registry.cell(kConnectionsTotal)),
      connections_refused_(registry.cell(kConnectionsRefused)),
      connections_cut_(registry.cell(kConnectionsCut)),
      handshakes_failed_(registry.cell(kHandshakesFailed)),
      logins_failed_(registry.cell(kLoginsFailed)) {
  for (size_t command = 0; command < memcache::kCommandCount; ++command) {
    const std::string_view name = memcache::name(static_cast<memcache::Command>(command));
    for (size_t status = 0; status < kCommandStatusCount; ++status) {
      commands_[command][status] = &registry.cell(kCommands, {name, kStatusNames[status]});
    }
    for (size_t path = 0; path < kPathNames.size(); ++path) {
      durations_[command][path] = &registry.cell(kRequestDuration, {name, kPathNames[path]});
    }
  }
}

void WorkerStats::command(memcache::Command command, CommandStatus status, objects::ReadPath path,
                          double seconds) {
  const auto index = static_cast<size_t>(command);
  commands_[index][static_cast<size_t>(status)]->add();
  durations_[index][static_cast<size_t>(path)]->observe(seconds);
}

void WorkerStats::unreadable_key(bool as_miss) { unreadable_keys_[as_miss ? 1 : 0]->add(); }

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
void WorkerStats::handshake_failed() { handshakes_failed_.add(); }

void WorkerStats::login_failed() {
  add(Stat::kAuthErrors);
  logins_failed_.add();
}

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

StatPairs ServerStats::general() const {
  const std::time_t now = std::time(nullptr);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::string connections = std::to_string(open_.load(std::memory_order_relaxed));
  const StoredItems in_nodes = stored();
  StatPairs pairs = {{"pid", std::to_string(getpid())},
                     {"uptime", std::to_string(now - started_)},
                     {"time", std::to_string(now)},
                     {"version", version},
                     {"libevent", event_get_version()},
                     {"pointer_size", std::to_string(8 * sizeof(void*))},
                     {"rusage_user", seconds_text(usage.ru_utime)},
                     {"rusage_system", seconds_text(usage.ru_stime)},
                     {"max_connections", std::to_string(limit_.load(std::memory_order_relaxed))},
                     {"curr_connections", connections},
                     {"connection_structures", connections},
                     {"accepting_conns", "1"},
                     {"threads", std::to_string(workers_.size())},
                     {"limit_maxbytes", std::to_string(in_nodes.limit_bytes)},
                     {"bytes", std::to_string(in_nodes.bytes)},
                     {"curr_items", std::to_string(in_nodes.items)}};
  for (const auto& [stat, name] : kStats)
    pairs.emplace_back(name, std::to_string(since_reset(stat)));
  for (const std::string_view stat : kNeverCounted) pairs.emplace_back(stat, "0");
  return pairs;
}

// Items and their slabs lie on the nodes: exporters and tools take empty lists.
std::optional<StatPairs> ServerStats::list(std::string_view what) const {
  if (what.empty()) return general();
  if (what == "settings") return settings();
  if (what == "elastripe") return cluster();
  if (what == "items" || what == "conns" || what == "cachedump") return StatPairs{};
  if (what == "slabs") {
    return StatPairs{{"active_slabs", "0"},
                     {"total_malloced", std::to_string(stored().used_bytes)}};
  }
  if (what == "sizes" || what == "sizes_enable" || what == "sizes_disable") {
    return StatPairs{{"sizes_status", "disabled"}};
  }
  return std::nullopt;
}

CommandOutcome ServerStats::answer(std::string_view argument) {
  // Only the first word counts, and the second one of `detail`.
  const std::string_view what = first_word(argument);
  if (what == "detail") return detail(first_word(argument.substr(what.size())));
  if (what == "reset") {
    reset();
    return StatsReset{};
  }
  auto pairs = list(what);
  if (!pairs) return replies::kError;
  return *std::move(pairs);
}

}  // namespace elastripe
