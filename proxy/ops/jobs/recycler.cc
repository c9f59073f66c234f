#include "proxy/ops/jobs/recycler.h"

#include <algorithm>
#include <utility>

#include "proxy/base/log.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/jobs/fold.h"

namespace elastripe::jobs {

namespace {

// In one frame, and so many are folded before the node is asked again.
constexpr uint32_t kLogsPerFrame = 256;

}  // namespace

Task<void> Recycler::run() {
  for (;;) {
    if (!co_await ops_.clock.sleep_for(settings_.fold_after)) co_return;
    (void)co_await round(settings_.fold_after);
  }
}

Task<size_t> Recycler::round(Duration min_age) {
  size_t logs = 0;
  const MapPtr map = ops_.map.current();
  if (map == nullptr || !map->capabilities.has(node::Capability::kUpdateLogs)) co_return logs;
  for (size_t id = 0; id < map->nodes.size(); ++id) {
    const auto at = static_cast<NodeId>(id);
    if (!map->is_up(at)) continue;
    for (std::string& key : co_await old_logs(map, at, min_age)) {
      ++logs;
      const auto folded = co_await fold_object(ops_, key, fresh_deadline(ops_));
      if (!folded && folded.error().code == ErrorCode::kCancelled) co_return logs;
      // What could not be folded stays in the log, and is tried again in the next round.
      if (!folded) log_debug("fold of {}: {}", escape_for_log(key, 250), folded.error().message);
    }
  }
  co_return logs;
}

Task<std::vector<std::string>> Recycler::old_logs(MapPtr map, NodeId at, Duration min_age) {
  std::vector<std::string> keys;
  node::LogScanRequest message;
  message.max_entries = kLogsPerFrame;
  message.min_age_ms =
      static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(min_age).count());
  do {
    const auto page =
        co_await ask(ops_.nodes, *map, at, message, ops_.clock.now() + ops_.settings.node_timeout);
    if (!page) co_return keys;
    auto logs = page->args.logs;
    std::ranges::sort(logs, std::ranges::greater(), &node::ScannedLog::age_ms);
    for (node::ScannedLog& log : logs) keys.push_back(std::move(log.key));
    message.cursor = page->args.cursor;
  } while (message.cursor != 0);
  co_return keys;
}

}  // namespace elastripe::jobs
