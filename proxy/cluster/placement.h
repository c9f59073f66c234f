// Placement: which nodes take the shards of a new segment.
#pragma once

#include <vector>

#include "proxy/base/error.h"
#include "proxy/cluster/ring.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

// Chooses `count` up nodes in distinct failure domains, none of `exclude` nor in its domains, in
// ring order from the partition: the first policy. Records keep the result, so another policy (by
// load or free memory) needs no other change. kUnavailable with the number of usable domains if
// there are not enough.
Result<std::vector<node::NodeId>> choose_nodes(const node::ClusterMap& map, const Ring& ring,
                                               size_t partition, size_t count,
                                               const std::vector<node::NodeId>& exclude);

// The first count up nodes of the ring's order in distinct domains, none of `left_out` (whose
// domains others may use); fewer if there are no more.
std::vector<node::NodeId> homes_of(const node::ClusterMap& map, const Ring& ring, size_t partition,
                                   size_t count, const std::vector<node::NodeId>& left_out = {});

}  // namespace elastripe
