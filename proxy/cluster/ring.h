// The consistent-hash ring (ketama): every node has points on it, every partition one; walking the
// ring from a partition's point orders the nodes for it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

// Pure: depends on the nodes' names only, so every proxy computes the same ring. Immutable.
class Ring {
 public:
  static constexpr int kPointsPerNode = 160;

  // `names[id]` is the name of node id; without one, it is not on the ring.
  Ring(const std::vector<std::string>& names, uint32_t partitions);

  // All its nodes in the order in which the partition meets them.
  const std::vector<node::NodeId>& order(size_t partition) const { return orders_[partition]; }
  size_t partitions() const { return orders_.size(); }

 private:
  std::vector<std::vector<node::NodeId>> orders_;
};

}  // namespace elastripe
