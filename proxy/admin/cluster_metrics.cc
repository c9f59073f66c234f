#include "proxy/admin/cluster_metrics.h"

namespace elastripe {
namespace {

constexpr GaugeRow kEpoch{"elastripe_epoch", "Number of the cluster map's epoch."};
constexpr GaugeRow kProxies{"elastripe_proxies", "Proxies that serve the cluster, this one too."};
constexpr GaugeRow kDecides{"elastripe_decides", "1 if this proxy makes the cluster maps."};
constexpr GaugeRow kProxyDecides{"elastripe_proxy_decides",
                                 "1 if that proxy makes the cluster maps, 0 if it follows.",
                                 {"proxy"}};
constexpr GaugeRow kNodeUp{"elastripe_node_up", "1 if the node is up in the map.", {"node"}};
constexpr GaugeRow kNodeFreeBytes{"elastripe_node_free_bytes",
                                  "What new data can still take on the node; 0 while it is not up.",
                                  {"node"}};
constexpr GaugeRow kLogBytes{
    "elastripe_node_log_bytes", "Bytes of update logs on the node that are not folded.", {"node"}};
constexpr GaugeRow kLogUsedBytes{
    "elastripe_node_log_used_bytes", "Memory of the node that update logs take.", {"node"}};
constexpr GaugeRow kLogLimitBytes{
    "elastripe_node_log_limit_bytes", "Such memory within which it takes new updates.", {"node"}};
constexpr GaugeRow kLogAge{"elastripe_node_log_age_milliseconds",
                           "Age of the node's oldest update that is not folded; 0 without one.",
                           {"node"}};
constexpr GaugeRow kLogMerged{
    "elastripe_node_log_merged_bytes",
    "Bytes that newer ones took the place of in its logs before a fold, since it started.",
    {"node"}};
constexpr GaugeRow kLogRefusals{"elastripe_node_log_refusals",
                                "Updates for which its logs had no room, since it started.",
                                {"node"}};
// kind: record or shard
constexpr GaugeRow kElectionWorks{
    "elastripe_election_works",
    "1 while another proxy could be elected to decide; 0: etcd, which elects, does not answer."};
constexpr GaugeRow kStoredBytes{"elastripe_stored_bytes", "Bytes stored on the nodes.", {"kind"}};
// state: synced, unsynced or lost
constexpr GaugeRow kPartitions{"elastripe_partitions", "Partitions of the cluster map.", {"state"}};
constexpr GaugeRow kPartitionsShort{
    "elastripe_partitions_short",
    "Partitions with fewer homes than they should have, because nodes lack room."};
constexpr GaugeRow kPartitionsToMove{
    "elastripe_partitions_to_move",
    "Partitions that are not where the ring says, as nodes were added or drain."};
constexpr GaugeRow kObjectsSurviving{"elastripe_objects_surviving",
                                     "Striped objects by how many further failures they survive.",
                                     {"failures"}};

}  // namespace

ClusterMetrics::ClusterMetrics(MetricRegistry& registry)
    : registry_(registry),
      epoch_(registry.cell(kEpoch)),
      proxies_(registry.cell(kProxies)),
      decides_(registry.cell(kDecides)),
      election_works_(registry.cell(kElectionWorks)),
      record_bytes_(registry.cell(kStoredBytes, {"record"})),
      shard_bytes_(registry.cell(kStoredBytes, {"shard"})),
      partitions_synced_(registry.cell(kPartitions, {"synced"})),
      partitions_unsynced_(registry.cell(kPartitions, {"unsynced"})),
      partitions_lost_(registry.cell(kPartitions, {"lost"})),
      partitions_short_(registry.cell(kPartitionsShort)),
      partitions_to_move_(registry.cell(kPartitionsToMove)) {
  show_surviving({0});
}

ClusterMetrics::NodeGauges& ClusterMetrics::gauges_of(const std::string& node) {
  const auto known = nodes_.find(node);
  if (known != nodes_.end()) return known->second;
  const NodeGauges gauges{
      &registry_.cell(kNodeUp, {node}),
      &registry_.cell(kNodeFreeBytes, {node}),
      {{&registry_.cell(kLogBytes, {node}), &node::NodeStatistics::log_bytes},
       {&registry_.cell(kLogUsedBytes, {node}), &node::NodeStatistics::log_used_bytes},
       {&registry_.cell(kLogLimitBytes, {node}), &node::NodeStatistics::log_limit_bytes},
       {&registry_.cell(kLogAge, {node}), &node::NodeStatistics::log_age_ms},
       {&registry_.cell(kLogMerged, {node}), &node::NodeStatistics::log_merged_bytes},
       {&registry_.cell(kLogRefusals, {node}), &node::NodeStatistics::log_refusals}}};
  return nodes_.emplace(node, gauges).first->second;
}

void ClusterMetrics::show_surviving(const std::vector<uint64_t>& objects) {
  while (surviving_.size() < objects.size()) {
    const std::string failures = std::to_string(surviving_.size());
    surviving_.push_back(&registry_.cell(kObjectsSurviving, {failures}));
  }
  for (size_t i = 0; i < surviving_.size(); ++i) {
    surviving_[i]->set(i < objects.size() ? static_cast<int64_t>(objects[i]) : 0);
  }
}

void ClusterMetrics::show_proxies(const std::vector<decider::KnownProxy>& proxies) {
  for (auto& [name, decides] : proxies_decide_) decides->hide();
  for (const decider::KnownProxy& proxy : proxies) {
    Gauge*& decides = proxies_decide_[proxy.card.admin];
    if (decides == nullptr) decides = &registry_.cell(kProxyDecides, {proxy.card.admin});
    decides->set(proxy.card.decides_as != 0 ? 1 : 0);
  }
}

void ClusterMetrics::refresh(const decider::ClusterStatus& status) {
  show_proxies(status.proxies);
  epoch_.set(status.epoch.number);
  proxies_.set(static_cast<int64_t>(status.proxies.size()));
  decides_.set(status.decides ? 1 : 0);
  election_works_.set(status.election.problem.empty() ? 1 : 0);
  partitions_synced_.set(status.partitions_synced);
  partitions_lost_.set(status.partitions_lost);
  partitions_short_.set(status.partitions_short);
  partitions_to_move_.set(status.partitions_to_move);
  show_surviving(status.objects_surviving);
  partitions_unsynced_.set(int64_t{status.partitions} - status.partitions_synced -
                           status.partitions_lost);
  uint64_t record_bytes = 0;
  uint64_t shard_bytes = 0;
  for (auto& [name, gauges] : nodes_) {  // those that are no members any more
    gauges.up->hide();
    gauges.free_bytes->hide();
    for (const auto& [gauge, _] : gauges.told) gauge->hide();
  }
  for (const decider::NodeStatus& node : status.nodes) {
    const bool up = node.info.state == node::NodeState::kUp;
    const NodeGauges& gauges = gauges_of(node.info.name);
    gauges.up->set(up ? 1 : 0);
    gauges.free_bytes->set(up ? static_cast<int64_t>(node.free_bytes) : 0);
    for (const auto& [gauge, number] : gauges.told) {
      gauge->set(up ? static_cast<int64_t>(node.statistics.*number) : 0);
    }
    if (!up) continue;
    record_bytes += node.statistics.record_bytes;
    shard_bytes += node.statistics.shard_bytes;
  }
  record_bytes_.set(static_cast<int64_t>(record_bytes));
  shard_bytes_.set(static_cast<int64_t>(shard_bytes));
}

}  // namespace elastripe
