#include "proxy/cluster/node_client.h"

namespace elastripe {

namespace {
// Buffers up to this size are kept: larger ones were made for one request.
constexpr size_t kSmallArgsBytes = 4 * kUsualArgsBytes;
constexpr size_t kSmallPieces = 8;
}  // namespace

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

void keep_memory(NodeRequest&& request) {
  const bool is_small =
      request.args.capacity() <= kSmallArgsBytes && request.payload.capacity() <= kSmallPieces &&
      request.into.capacity() <= kSmallPieces && request.keep.capacity() <= kSmallPieces;
  if (!is_small) return;
  request.args.clear();
  request.payload.clear();
  request.into.clear();
  request.keep.clear();
  request.stop = nullptr;
  Spares<NodeRequest>::keep(std::move(request));
}

}  // namespace elastripe
