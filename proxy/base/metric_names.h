// The names of all metrics, in one place: they are a contract with dashboards.
#pragma once

#include <array>

#include "proxy/base/metrics.h"

namespace elastripe::metric_names {

// {command, status}
inline constexpr MetricName kCommands{"elastripe_commands_total", "Client commands answered."};
// {command, path}; path is inline (records only), striped or degraded; of a store, by its value
inline constexpr MetricName kRequestDuration{"elastripe_request_duration_seconds",
                                             "Time from a command read to its reply composed."};
inline constexpr MetricName kConnections{"elastripe_client_connections",
                                         "Client connections open now."};
inline constexpr MetricName kConnectionsTotal{"elastripe_client_connections_total",
                                              "Client connections accepted."};
inline constexpr MetricName kConnectionsRefused{"elastripe_client_connections_refused_total",
                                                "Client connections refused at the limit."};
inline constexpr MetricName kConnectionsCut{
    "elastripe_client_connections_cut_total",
    "Clients cut because they took or sent too little for too long."};
inline constexpr MetricName kReceivedBytes{"elastripe_client_received_bytes_total",
                                           "Bytes read from clients."};
inline constexpr MetricName kSentBytes{"elastripe_client_sent_bytes_total",
                                       "Bytes written to clients."};
inline constexpr MetricName kStagedBytes{"elastripe_staged_bytes",
                                         "Bytes of values held in the proxy's memory."};
inline constexpr MetricName kReadBytes{"elastripe_read_bytes",
                                       "Bytes of values that are read, in the proxy's memory."};
// {for}; write, read or decode
inline constexpr MetricName kMemoryWaiters{"elastripe_memory_waiters",
                                           "Operations that wait for memory for a value."};
// {node}
inline constexpr MetricName kNodeUp{"elastripe_node_up", "1 if the node is up in the map."};
// {node, request}
inline constexpr MetricName kNodeRequestDuration{"elastripe_node_request_duration_seconds",
                                                 "Time from a frame sent to its reply."};
// {node, code}
inline constexpr MetricName kNodeErrors{"elastripe_node_errors_total",
                                        "Node requests that failed."};
// {node}
inline constexpr MetricName kNodeSentBytes{"elastripe_node_sent_bytes_total",
                                           "Bytes written to the node."};
inline constexpr MetricName kNodeReceivedBytes{"elastripe_node_received_bytes_total",
                                               "Bytes read from the node."};
inline constexpr MetricName kEpoch{"elastripe_epoch", "Number of the cluster map's epoch."};
// {kind}; kind is record or shard
inline constexpr MetricName kStoredBytes{"elastripe_stored_bytes", "Bytes stored on the nodes."};
// {node}
inline constexpr MetricName kNodeFreeBytes{
    "elastripe_node_free_bytes", "What new data can still take on the node; 0 while it is not up."};
// {state}; state is synced, unsynced or lost
inline constexpr MetricName kPartitions{"elastripe_partitions", "Partitions of the cluster map."};
inline constexpr MetricName kPartitionsShort{
    "elastripe_partitions_short",
    "Partitions with fewer homes than they should have, because nodes lack room."};

// What flows count (OpsCounters).
inline constexpr MetricName kDegradedReads{"elastripe_degraded_reads_total",
                                           "Objects read through missing shards."};
inline constexpr MetricName kDegradedWrites{
    "elastripe_degraded_writes_total",
    "Commits acknowledged with less redundancy than their scheme has."};
inline constexpr MetricName kUnknownOutcomes{"elastripe_unknown_outcomes_total",
                                             "Operations that may or may not have taken effect."};
inline constexpr MetricName kCommitConflicts{
    "elastripe_commit_conflicts_total",
    "Values written again because another writer or a fence came first."};
inline constexpr MetricName kReprepares{
    "elastripe_reprepares_total",
    "Striped values prepared again because the cluster map changed before their commit."};
inline constexpr MetricName kKeySyncs{"elastripe_key_syncs_total", "Keys synced by themselves."};
inline constexpr MetricName kRecordsMended{
    "elastripe_records_mended_total",
    "Records whose copy on a node was damaged and is replaced from other homes."};
inline constexpr MetricName kPartitionSyncs{"elastripe_partition_syncs_total",
                                            "Partitions synced."};
inline constexpr MetricName kFences{"elastripe_fences_total", "Records fenced."};
inline constexpr MetricName kReclaimedShards{"elastripe_reclaimed_shards_total",
                                             "Orphaned shards that reclaim deleted."};
inline constexpr MetricName kReclaimedRecords{
    "elastripe_reclaimed_records_total",
    "Expired records that reclaim deleted, and tombstones that it collected."};

// {direction, result}; direction is forward or backward; result is transitioned, overwritten (a
// write came first), refused (shards are missing) or failed
inline constexpr MetricName kTransitions{"elastripe_transitions_total",
                                         "Objects that had to go to their other k, by their end."};
inline constexpr MetricName kTransitionBytes{
    "elastripe_transition_bytes_total",
    "Bytes of blocks that transitions read from and sent to the nodes."};

// From 50 microseconds to 10 seconds: an inline get and the deadline of a request.
inline constexpr std::array kDurationBounds{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                            0.005,   0.01,   0.025,   0.05,   0.1,   0.25,
                                            0.5,     1.0,    2.5,     5.0,    10.0};

}  // namespace elastripe::metric_names
