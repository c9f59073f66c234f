// Walking records partition by partition, at the tails: what reclaim and transition jobs share.
#pragma once

#include <map>
#include <vector>

#include "proxy/ops/context.h"

namespace elastripe::records {

// The chosen partitions as a scan's bits.
std::vector<uint8_t> partition_bits(const std::vector<bool>& chosen);

// The same by the node that answers for all of a partition: any home
// holds the records of all pools that it is a chain member of, and the tail is one of each.
std::map<NodeId, std::vector<uint8_t>> partitions_by_tail(const node::ClusterMap& map,
                                                          const std::vector<bool>& chosen);

// One page of a scan (RECORD_SCAN), within node_timeout. Errors: the call's, or the refusal.
Task<Result<node::RecordScanReply>> scan_records(OpsContext& ops, MapPtr map, NodeId from,
                                                 node::RecordScanRequest message);

}  // namespace elastripe::records
