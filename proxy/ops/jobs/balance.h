// Balance: how full the nodes are, and which shards have to move for them to be equally full.
#pragma once

#include <optional>
#include <vector>

#include "coding/scheme.h"
#include "proxy/cluster/map_view.h"
#include "server-patches/node/format/record.h"

namespace elastripe::jobs {

struct ShardMove {
  size_t shard = 0;
  node::NodeId from = 0;
  node::NodeId to = 0;
  uint64_t bytes = 0;
};

// A node's fill is the share of its memory that is in use. Shards move from nodes that were above
// the mean fill to nodes that were below it, until those are there, and as long as the two differ
// by more than kTolerance: the emptiest that may take a shard gets it. A node may if it is up, does
// not drain, and no other shard of the segment is in its failure domain.
//
// What has been taken counts as moved at once, for nodes tell late what they have: what leaves them
// is deleted after a grace. So all moves together are those that are needed, in whatever order
// segments are met. Records stay: their homes are the ring's.
class Balance {
 public:
  static constexpr double kTolerance = 0.02;

  // Nodes of which nothing is known take no part.
  Balance(const node::ClusterMap& map, const NodeRooms& rooms);

  // The moves of some of a segment's shards, under `map`, which may be newer.
  std::vector<ShardMove> take(const node::ClusterMap& map, const coding::Scheme& scheme,
                              const node::Segment& segment);
  // A move that did not come about.
  void put_back(const ShardMove& move);

 private:
  struct Node {
    double limit_bytes = 0;  // 0: takes no part
    double used_bytes = 0;
    bool gives = false;  // else it takes
    double fill() const { return used_bytes / limit_bytes; }
  };
  bool takes_part(node::NodeId id) const {
    return id < nodes_.size() && nodes_[id].limit_bytes > 0;
  }
  std::optional<node::NodeId> emptiest_for(const node::ClusterMap& map,
                                           const node::Segment& segment, size_t shard) const;

  std::vector<Node> nodes_;  // by id
  double mean_fill_ = 0;
};

}  // namespace elastripe::jobs
