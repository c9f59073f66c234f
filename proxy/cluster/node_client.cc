#include "proxy/cluster/node_client.h"

#include "proxy/base/memory_pool.h"

namespace elastripe {

namespace {

// The args of most requests, with their key: written without growing.
constexpr size_t kUsualArgsBytes = 128;
// Memory up to this size is kept: larger one was made for one request.
constexpr size_t kSmallArgsBytes = 4 * kUsualArgsBytes;
constexpr size_t kSmallPieces = 8;

using SpareRequests = Spares<std::unique_ptr<NodeRequest>>;

bool is_small(const NodeRequest& request) {
  return request.args.capacity() <= kSmallArgsBytes && request.payload.capacity() <= kSmallPieces &&
         request.into.capacity() <= kSmallPieces && request.keep.capacity() <= kSmallPieces;
}

}  // namespace

void KeepRequest::operator()(NodeRequest* gone) const {
  std::unique_ptr<NodeRequest> request(gone);
  if (!is_small(*request)) return;
  request->args.clear();
  request->payload.clear();
  request->into.clear();
  request->keep.clear();
  request->stop = nullptr;
  SpareRequests::keep(std::move(request));
}

NodeRequestPtr new_request(node::Opcode opcode) {
  auto request = SpareRequests::take();
  if (request == nullptr) {
    request = std::make_unique<NodeRequest>();
    request->args.reserve(kUsualArgsBytes);
  }
  request->opcode = opcode;
  return NodeRequestPtr(request.release());
}

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
