#include "proxy/admin/cluster_metrics.h"

#include "proxy/base/metric_names.h"

namespace elastripe {

namespace names = metric_names;

ClusterMetrics::ClusterMetrics(MetricRegistry& registry, const std::vector<std::string>& nodes)
    : epoch_(registry.gauge(names::kEpoch)),
      record_bytes_(registry.gauge(names::kStoredBytes, {{"kind", "record"}})),
      shard_bytes_(registry.gauge(names::kStoredBytes, {{"kind", "shard"}})),
      partitions_synced_(registry.gauge(names::kPartitions, {{"state", "synced"}})),
      partitions_unsynced_(registry.gauge(names::kPartitions, {{"state", "unsynced"}})),
      partitions_lost_(registry.gauge(names::kPartitions, {{"state", "lost"}})),
      partitions_short_(registry.gauge(names::kPartitionsShort)) {
  for (const std::string& node : nodes) {
    nodes_.push_back({&registry.gauge(names::kNodeUp, {{"node", node}}),
                      &registry.gauge(names::kNodeFreeBytes, {{"node", node}})});
  }
}

void ClusterMetrics::refresh(const ClusterStatus& status) {
  epoch_.set(status.epoch.number);
  partitions_synced_.set(status.partitions_synced);
  partitions_lost_.set(status.partitions_lost);
  partitions_short_.set(status.partitions_short);
  partitions_unsynced_.set(int64_t{status.partitions} - status.partitions_synced -
                           status.partitions_lost);
  uint64_t record_bytes = 0;
  uint64_t shard_bytes = 0;
  for (size_t i = 0; i < status.nodes.size() && i < nodes_.size(); ++i) {
    const NodeStatus& node = status.nodes[i];
    const bool up = node.info.state == node::NodeState::kUp;
    nodes_[i].up->set(up ? 1 : 0);
    nodes_[i].free_bytes->set(up ? static_cast<int64_t>(node.free_bytes) : 0);
    if (!up) continue;
    record_bytes += node.statistics.record_bytes;
    shard_bytes += node.statistics.shard_bytes;
  }
  record_bytes_.set(static_cast<int64_t>(record_bytes));
  shard_bytes_.set(static_cast<int64_t>(shard_bytes));
}

}  // namespace elastripe
