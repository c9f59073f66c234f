// ClusterMetrics: the state of the cluster as gauges.
#pragma once

#include <string>
#include <vector>

#include "proxy/base/metrics.h"
#include "proxy/ops/decider/decider.h"

namespace elastripe {

// Refreshed when metrics are asked for: on the control thread, by the admin interface.
class ClusterMetrics {
 public:
  // `nodes`: their names, by node id.
  ClusterMetrics(MetricRegistry& registry, const std::vector<std::string>& nodes);

  void refresh(const decider::ClusterStatus& status);

 private:
  void show_surviving(const std::vector<uint64_t>& objects);

  struct NodeGauges {
    Gauge* up;
    Gauge* free_bytes;
  };

  MetricRegistry& registry_;
  Gauge& epoch_;
  Gauge& record_bytes_;
  Gauge& shard_bytes_;
  Gauge& partitions_synced_;
  Gauge& partitions_unsynced_;
  Gauge& partitions_lost_;
  Gauge& partitions_short_;
  std::vector<NodeGauges> nodes_;  // by node id
  std::vector<Gauge*> surviving_;  // by failures; there are more when objects survive more
};

}  // namespace elastripe
