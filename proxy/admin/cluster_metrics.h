// ClusterMetrics: the state of the cluster as gauges.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proxy/base/metrics.h"
#include "proxy/ops/decider/decider.h"

namespace elastripe {

// Refreshed when metrics are asked for: on the control thread, by the admin interface.
class ClusterMetrics {
 public:
  explicit ClusterMetrics(MetricRegistry& registry);

  void refresh(const decider::ClusterStatus& status);

 private:
  void show_surviving(const std::vector<uint64_t>& objects);
  void show_proxies(const std::vector<decider::KnownProxy>& proxies);

  struct NodeGauges {
    Gauge* up;
    Gauge* free_bytes;
    // Those that show what the node tells of itself; 0 while it is not up.
    std::vector<std::pair<Gauge*, uint64_t node::NodeStatistics::*>> told;
  };

  NodeGauges& gauges_of(const std::string& node);

  MetricRegistry& registry_;
  Gauge& epoch_;
  Gauge& proxies_;
  Gauge& decides_;
  Gauge& election_works_;
  Gauge& record_bytes_;
  Gauge& shard_bytes_;
  Gauge& partitions_synced_;
  Gauge& partitions_unsynced_;
  Gauge& partitions_lost_;
  Gauge& partitions_short_;
  Gauge& partitions_to_move_;
  std::map<std::string, NodeGauges> nodes_;  // by name; those that were removed stay, as not up
  std::map<std::string, Gauge*> proxies_decide_;  // by address of the admin interface
  std::vector<Gauge*> surviving_;  // by failures; there are more when objects survive more
};

}  // namespace elastripe
