// Members: who the nodes are, and their order on the ring. The configuration says so of a new
// cluster, and from then on the cluster map: nodes are added to it and removed from it.
#pragma once

#include <memory>
#include <vector>

#include "proxy/base/error.h"
#include "proxy/cluster/ring.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

// Immutable.
struct Members {
  // Keeps what identity_of() does; nodes that were removed are not on the rings.
  Members(const std::vector<node::NodeInfo>& nodes_in, uint32_t partitions);

  std::vector<node::NodeInfo> nodes;  // by id
  Ring hashed;
  Ring even;

  // The one that a cluster with these capabilities uses.
  const Ring& ring(node::CapabilitySet capabilities) const {
    return capabilities.has(node::Capability::kEvenRing) ? even : hashed;
  }
};
using MembersPtr = std::shared_ptr<const Members>;

// The node without what a map says of its process: its state and incarnation.
node::NodeInfo identity_of(const node::NodeInfo& node);
bool are_same_members(const std::vector<node::NodeInfo>& a, const std::vector<node::NodeInfo>& b);

// What an operator asks of the list of members.
struct MemberChange {
  enum class Kind : uint8_t {
    kAdd,     // a new node; or another address for one that is lost or was removed
    kDrain,   // it takes nothing new, and what it has goes elsewhere
    kRefill,  // takes a drain back
    kRemove,  // for good, as far as it is asked for
  };
  Kind kind = Kind::kAdd;
  // Its name; to add it, also host and port, and the domain, unless that is as it was, or its own.
  node::NodeInfo node;
};

// `nodes` as they are to be. kNotFound, kConflict: the node is not there, or is not as it would
// have to be; kInvalid: that can not be a node.
Result<std::vector<node::NodeInfo>> changed_members(std::vector<node::NodeInfo> nodes,
                                                    const MemberChange& change);

// The members for a proxy that starts: those of the map that was found, and after them those of the
// configuration that it has never heard of. Addresses are as the map has them.
std::vector<node::NodeInfo> merged_members(const std::vector<node::NodeInfo>& of_map,
                                           const std::vector<node::NodeInfo>& configured);

}  // namespace elastripe
