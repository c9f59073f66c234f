#include <catch2/catch.hpp>

#include "proxy/admin/cluster_metrics.h"
#include "proxy/admin/ops_metrics.h"

using namespace elastripe::decider;

namespace elastripe {
namespace {

TEST_CASE("every counter of the flows is a metric, summed over the threads") {
  MetricRegistry registry;
  OpsMetrics worker(registry);
  OpsMetrics control(registry);
  OpsCounters counted;
  counted.degraded_reads = 1;
  counted.degraded_writes = 2;
  counted.unknown_outcomes = 3;
  counted.commit_conflicts = 4;
  counted.reprepares = 5;
  worker.publish(counted);
  worker.publish(counted);  // nothing new
  counted.degraded_reads = 11;
  worker.publish(counted);
  OpsCounters of_control;
  of_control.degraded_reads = 100;
  of_control.key_syncs = 6;
  of_control.records_mended = 13;
  of_control.partition_syncs = 7;
  of_control.fences = 8;
  of_control.reclaimed_shards = 9;
  of_control.reclaimed_records = 10;
  control.publish(of_control);

  CHECK(registry.value("elastripe_degraded_reads_total") == 111);
  CHECK(registry.value("elastripe_degraded_writes_total") == 2);
  CHECK(registry.value("elastripe_unknown_outcomes_total") == 3);
  CHECK(registry.value("elastripe_commit_conflicts_total") == 4);
  CHECK(registry.value("elastripe_reprepares_total") == 5);
  CHECK(registry.value("elastripe_key_syncs_total") == 6);
  CHECK(registry.value("elastripe_records_mended_total") == 13);
  CHECK(registry.value("elastripe_partition_syncs_total") == 7);
  CHECK(registry.value("elastripe_fences_total") == 8);
  CHECK(registry.value("elastripe_reclaimed_shards_total") == 9);
  CHECK(registry.value("elastripe_reclaimed_records_total") == 10);
}

NodeStatus node_in(const std::string& name, node::NodeState state) {
  NodeStatus node;
  node.info.name = name;
  node.info.state = state;
  node.free_bytes = 1000;
  node.statistics.record_bytes = 10;
  node.statistics.shard_bytes = 100;
  node.statistics.log_bytes = 20;
  node.statistics.log_used_bytes = 30;
  node.statistics.log_limit_bytes = 40;
  node.statistics.log_age_ms = 50;
  node.statistics.log_merged_bytes = 60;
  node.statistics.log_refusals = 70;
  return node;
}

TEST_CASE("the gauges show the nodes and partitions of the map") {
  MetricRegistry registry;
  ClusterMetrics metrics(registry);
  ClusterStatus status;
  metrics.refresh(status);  // no map yet
  CHECK(registry.value("elastripe_epoch") == 0);

  status.epoch.number = 7;
  status.nodes = {node_in("n0", node::NodeState::kUp), node_in("n1", node::NodeState::kUp),
                  node_in("n2", node::NodeState::kLost)};
  status.partitions = 16;
  status.partitions_synced = 9;
  status.partitions_lost = 2;
  status.partitions_short = 3;
  status.partitions_to_move = 4;
  status.objects_surviving = {1, 5, 90};
  status.proxies.resize(2);
  status.proxies[0].card.admin = "a:1";
  status.proxies[1].card.admin = "b:1";
  status.proxies[1].card.decides_as = 9;
  metrics.refresh(status);
  CHECK(registry.value("elastripe_proxy_decides", {{"proxy", "a:1"}}) == 0);
  CHECK(registry.value("elastripe_proxy_decides", {{"proxy", "b:1"}}) == 1);
  CHECK(registry.value("elastripe_epoch") == 7);
  CHECK(registry.value("elastripe_node_up", {{"node", "n0"}}) == 1);
  CHECK(registry.value("elastripe_node_up", {{"node", "n2"}}) == 0);
  CHECK(registry.value("elastripe_node_free_bytes", {{"node", "n0"}}) == 1000);
  CHECK(registry.value("elastripe_node_free_bytes", {{"node", "n2"}}) == 0);
  CHECK(registry.value("elastripe_node_log_bytes", {{"node", "n0"}}) == 20);
  CHECK(registry.value("elastripe_node_log_used_bytes", {{"node", "n0"}}) == 30);
  CHECK(registry.value("elastripe_node_log_limit_bytes", {{"node", "n0"}}) == 40);
  CHECK(registry.value("elastripe_node_log_age_milliseconds", {{"node", "n0"}}) == 50);
  CHECK(registry.value("elastripe_node_log_merged_bytes", {{"node", "n0"}}) == 60);
  CHECK(registry.value("elastripe_node_log_refusals", {{"node", "n0"}}) == 70);
  CHECK(registry.value("elastripe_node_log_bytes", {{"node", "n2"}}) == 0);
  CHECK(registry.value("elastripe_stored_bytes", {{"kind", "record"}}) == 20);
  CHECK(registry.value("elastripe_stored_bytes", {{"kind", "shard"}}) == 200);
  CHECK(registry.value("elastripe_partitions", {{"state", "synced"}}) == 9);
  CHECK(registry.value("elastripe_partitions", {{"state", "unsynced"}}) == 5);
  CHECK(registry.value("elastripe_partitions", {{"state", "lost"}}) == 2);
  CHECK(registry.value("elastripe_partitions_short") == 3);
  CHECK(registry.value("elastripe_partitions_to_move") == 4);

  // One is removed, another one is added.
  status.nodes = {node_in("n0", node::NodeState::kUp), node_in("n3", node::NodeState::kUp)};
  metrics.refresh(status);
  CHECK_FALSE(registry.value("elastripe_node_up", {{"node", "n1"}}).has_value());
  CHECK_FALSE(registry.value("elastripe_node_free_bytes", {{"node", "n1"}}).has_value());
  CHECK(registry.text().find("node=\"n1\"") == std::string::npos);
  CHECK(registry.value("elastripe_node_up", {{"node", "n3"}}) == 1);
  CHECK(registry.value("elastripe_objects_surviving", {{"failures", "0"}}) == 1);
  CHECK(registry.value("elastripe_objects_surviving", {{"failures", "2"}}) == 90);
  status.objects_surviving = {1};
  metrics.refresh(status);
  CHECK(registry.value("elastripe_objects_surviving", {{"failures", "0"}}) == 1);
  CHECK(registry.value("elastripe_objects_surviving", {{"failures", "2"}}) == 0);
}

}  // namespace
}  // namespace elastripe
