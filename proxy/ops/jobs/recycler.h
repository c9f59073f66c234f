// Recycler: folds update logs in the background, the oldest first, so that they stay small and what
// is updated gets into shards. On one thread, that of its OpsContext. Any number of proxies may.
#pragma once

#include <string>
#include <vector>

#include "proxy/ops/context.h"
#include "proxy/ops/jobs/recycler_settings.h"

namespace elastripe::jobs {

class Recycler {
 public:
  Recycler(OpsContext& ops, RecyclerSettings settings) : ops_(ops), settings_(settings) {}

  // Until shutdown.
  Task<void> run();
  // Folds all that is at least `min_age` old, once. How many logs there were.
  Task<size_t> round(Duration min_age);

 private:
  // What the node has as a tail.
  Task<std::vector<std::string>> old_logs(MapPtr map, NodeId at, Duration min_age);

  OpsContext& ops_;
  const RecyclerSettings settings_;
};

}  // namespace elastripe::jobs
