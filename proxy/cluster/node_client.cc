#include "proxy/cluster/node_client.h"

namespace elastripe {

Stamp stamp_for(const node::ClusterMap& map, NodeId node) {
  const node::NodeInfo* info = map.find_node(node);
  // An id outside of the map matches no incarnation: the node, whoever it is, answers kStaleEpoch.
  return {map.cluster_id, map.epoch, info == nullptr ? 0 : info->incarnation};
}

void add_payload(NodeRequest& request, std::span<const Buffer> pieces) {
  request.payload.reserve(pieces.size());
  request.keep.reserve(pieces.size());
  for (const Buffer& piece : pieces) {
    if (piece.empty()) continue;
    request.payload.push_back(piece.bytes());
    request.keep.push_back(piece);
  }
}

}  // namespace elastripe
