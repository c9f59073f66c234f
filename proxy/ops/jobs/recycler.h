// Recycler: folds update logs in the background, the oldest first, so that they stay small and what
// is updated gets into shards. On one thread, that of its OpsContext. Any number of proxies may.
#pragma once

#include <string>
#include <vector>

#include "proxy/ops/context.h"
#include "proxy/ops/jobs/recycler_settings.h"
#include "proxy/ops/jobs/work_share.h"

namespace elastripe::jobs {

class Recycler {
 public:
  static constexpr Duration kLookPeriod = std::chrono::seconds(1);  // at least

  // `work` says at which nodes this one looks for logs; null: at all. It outlives the recycler.
  Recycler(OpsContext& ops, RecyclerSettings settings, const SharedWork* work = nullptr)
      : ops_(ops), settings_(settings), work_(work) {}

  // Until shutdown.
  Task<void> run();
  void change_settings(const RecyclerSettings& settings) { settings_ = settings; }
  // Folds all that is at least `min_age` old, once, but for what another recycler is folding, and
  // for what was written last at each node, up to `retained_bytes`, at the nodes of `share`. How
  // many it has folded.
  Task<size_t> round(Duration min_age, uint64_t retained_bytes, WorkShare share = {});

 private:
  struct Scan {
    NodeId at = 0;
    std::vector<node::ScannedLog> logs;   // what the node has as a tail
    std::vector<std::string> unnumbered;  // keys, as whatever home
  };
  Task<Scan> scan_logs(MapPtr map, NodeId at, Duration min_age);
  // Updates that proxies may have left at copies without a number, of a few keys. Of how many.
  Task<size_t> number_unnumbered(MapPtr map, const std::vector<Scan>& scans);
  // Folds one after the other of those that others have not come to yet.
  Task<size_t> fold_next(const std::vector<node::ScannedLog>& logs, size_t& next);

  OpsContext& ops_;
  RecyclerSettings settings_;
  const SharedWork* const work_;
  size_t numbered_ = 0;  // so many keys that others may have left, one round after the other
};

}  // namespace elastripe::jobs
