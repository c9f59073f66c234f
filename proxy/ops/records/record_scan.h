// Which partitions a scan of records or shards is to be of, as its bits.
#pragma once

#include <map>
#include <vector>

#include "proxy/ops/context.h"

namespace elastripe::records {

std::vector<uint8_t> partition_bits(const std::vector<bool>& chosen);

// The same by the node that answers for all of a partition: any home holds the records of all pools
// that it is a chain member of, and the tail is one of each.
std::map<NodeId, std::vector<uint8_t>> partitions_by_tail(const node::ClusterMap& map,
                                                          const std::vector<bool>& chosen);

}  // namespace elastripe::records
