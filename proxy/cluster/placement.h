// Placement: which nodes take the shards of a new segment.
#pragma once

#include <span>
#include <vector>

#include "proxy/base/error.h"
#include "proxy/cluster/map_view.h"
#include "proxy/cluster/ring.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

// The room that a shard needs, and what is known of the nodes'.
struct ShardRoom {
  const NodeRooms& rooms;
  uint64_t bytes = 0;
  // These had none just now, whatever they tell.
  std::span<const node::NodeId> refused;
};

// Chooses `count` up nodes in distinct failure domains, none of `exclude` nor in its domains, in
// ring order from the partition. First come nodes that have at least half as much room as the nodes
// have on average: so nodes fill up evenly, and the fullest keep some room for records, which can
// not go elsewhere. Then come others with room, then, as a node may take a shard though it tells
// otherwise, those without. Once nodes have refused, they and those without room are left out.
// A node that is draining takes a shard only if there are too few others.
// Records keep the result, so another policy needs no other change. kUnavailable with the number of
// usable domains if there are not enough, kNoSpace if there were, with more room.
Result<std::vector<node::NodeId>> choose_nodes(const node::ClusterMap& map, const Ring& ring,
                                               size_t partition, size_t count,
                                               const std::vector<node::NodeId>& exclude,
                                               const ShardRoom& room);

// The first count up nodes of the ring's order in distinct domains, none of `left_out` (whose
// domains others may use); fewer if there are no more. Those that are draining come last.
std::vector<node::NodeId> homes_of(const node::ClusterMap& map, const Ring& ring, size_t partition,
                                   size_t count, const std::vector<node::NodeId>& left_out = {});

}  // namespace elastripe
