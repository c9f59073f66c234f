#include "proxy/ops/jobs/recycler.h"

#include <algorithm>
#include <utility>

#include "proxy/async/when_all.h"
#include "proxy/base/log.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/fold.h"
#include "proxy/ops/records/log_copies.h"

namespace elastripe::jobs {

namespace {

constexpr uint32_t kLogsPerFrame = 256;
// Most of a fold is waiting for nodes.
constexpr size_t kFoldsAtOnce = 8;

// What is left of a node's logs once those that were written most recently, and fit into so many
// bytes, are taken away.
void retain(std::vector<node::ScannedLog>& logs, uint64_t retained_bytes) {
  std::ranges::sort(logs, {}, &node::ScannedLog::idle_ms);
  uint64_t bytes = 0;
  const auto first = std::ranges::find_if(logs, [&](const node::ScannedLog& log) {
    bytes += log.bytes;
    return bytes > retained_bytes;
  });
  logs.erase(logs.begin(), first);
}

}  // namespace

Task<void> Recycler::run() {
  TimePoint rests_since = ops_.clock.now();
  while (co_await ops_.clock.sleep_for(std::min(settings_.fold_after, kLookPeriod))) {
    if (ops_.clock.now() < rests_since + settings_.fold_after) continue;
    const WorkShare share = work_ == nullptr ? WorkShare{} : work_->share();
    (void)co_await round(settings_.fold_after, settings_.retained_bytes, share);
    rests_since = ops_.clock.now();
  }
}

Task<size_t> Recycler::round(Duration min_age, uint64_t retained_bytes, WorkShare share) {
  const MapPtr map = ops_.map.current();
  if (map == nullptr || !map->capabilities.has(node::Capability::kUpdateLogs)) co_return 0;
  const uint64_t now_ms = ops_.clock.unix_ms();
  std::vector<Task<Scan>> flows;
  flows.reserve(map->nodes.size());
  for (size_t id = 0; id < map->nodes.size(); ++id) {
    const auto at = static_cast<NodeId>(id);
    const bool is_ours = share.has(at, now_ms, settings_.fold_after + kLookPeriod);
    if (map->is_up(at) && is_ours) flows.push_back(scan_logs(map, at, min_age));
  }
  std::vector<node::ScannedLog> logs;
  auto scans = co_await when_all(std::move(flows));
  for (Scan& scan : scans) {
    retain(scan.logs, retained_bytes);
    std::ranges::move(scan.logs, std::back_inserter(logs));
  }
  std::ranges::sort(logs, std::ranges::greater(), &node::ScannedLog::age_ms);

  size_t next = 0;
  std::vector<Task<size_t>> folds;
  folds.reserve(kFoldsAtOnce);
  for (size_t i = 0; i < std::min(kFoldsAtOnce, logs.size()); ++i) {
    folds.push_back(fold_next(logs, next));
  }
  size_t folded = 0;
  for (const size_t of_one : co_await when_all(std::move(folds))) folded += of_one;
  co_await number_unnumbered(map, scans);
  co_return folded;
}

Task<size_t> Recycler::fold_next(const std::vector<node::ScannedLog>& logs, size_t& next) {
  size_t folded = 0;
  while (next < logs.size()) {
    const std::string& key = logs[next++].key;
    const auto end = co_await objects::fold_object(ops_, key, fresh_deadline(ops_), /*takes=*/true);
    if (!end && end.error().code == ErrorCode::kCancelled) break;
    // What could not be folded stays in the log, and is tried again in a later round.
    if (!end) log_debug("fold of {}: {}", escape_for_log(key, 250), end.error().message);
    folded += end && *end == objects::FoldEnd::kFolded;
  }
  co_return folded;
}

Task<Recycler::Scan> Recycler::scan_logs(MapPtr map, NodeId at, Duration min_age) {
  Scan scan{.at = at, .logs = {}, .unnumbered = {}};
  node::LogScanRequest message;
  message.max_entries = kLogsPerFrame;
  message.min_age_ms =
      static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(min_age).count());
  do {
    auto page =
        co_await ask(ops_.nodes, *map, at, message, ops_.clock.now() + ops_.settings.node_timeout);
    if (!page) co_return scan;
    std::ranges::move(page->args.logs, std::back_inserter(scan.logs));
    std::ranges::move(page->args.unnumbered, std::back_inserter(scan.unnumbered));
    message.cursor = page->args.cursor;
  } while (message.cursor != 0);
  co_return scan;
}

Task<size_t> Recycler::number_unnumbered(MapPtr map, const std::vector<Scan>& scans) {
  std::vector<std::pair<NodeId, std::string>> keys;
  for (const Scan& scan : scans) {
    for (const std::string& key : scan.unnumbered) keys.emplace_back(scan.at, key);
  }
  // The others in a later round, whatever becomes of these.
  std::vector<Task<Result<void>>> flows;
  for (size_t i = 0; i < std::min(keys.size(), kFoldsAtOnce); ++i) {
    const auto& [at, key] = keys[numbered_++ % keys.size()];
    flows.push_back(records::number_all(ops_, map, key, at, fresh_deadline(ops_)));
  }
  // What fails is told of again.
  const auto ends = co_await when_all(std::move(flows));
  co_return ends.size();
}

}  // namespace elastripe::jobs
