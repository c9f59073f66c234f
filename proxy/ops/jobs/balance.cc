#include "proxy/ops/jobs/balance.h"

#include <algorithm>

#include "proxy/ops/shards.h"

namespace elastripe::jobs {

namespace {

bool takes_shards(const node::ClusterMap& map, NodeId id) {
  return map.is_up(id) && map.nodes[id].role == node::NodeRole::kMember;
}

}  // namespace

Balance::Balance(const node::ClusterMap& map, const NodeRooms& rooms) : nodes_(map.nodes.size()) {
  double used = 0;
  double limit = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const uint64_t free_bytes = rooms.free_bytes(id);
    const uint64_t limit_bytes = rooms.limit_bytes(id);
    if (!takes_shards(map, id) || limit_bytes == 0 || free_bytes > limit_bytes) continue;
    nodes_[i] = {.limit_bytes = static_cast<double>(limit_bytes),
                 .used_bytes = static_cast<double>(limit_bytes - free_bytes)};
    used += nodes_[i].used_bytes;
    limit += nodes_[i].limit_bytes;
  }
  if (limit > 0) mean_fill_ = used / limit;
  for (Node& node : nodes_) node.gives = node.limit_bytes > 0 && node.fill() > mean_fill_;
}

std::optional<NodeId> Balance::emptiest_for(const node::ClusterMap& map,
                                            const node::Segment& segment, size_t shard) const {
  const auto is_taken = [&](const std::string& domain) {
    for (size_t i = 0; i < segment.placement.size(); ++i) {
      const node::NodeInfo* other = map.find_node(segment.placement[i]);
      if (i != shard && other != nullptr && other->domain == domain) return true;
    }
    return false;
  };
  std::optional<NodeId> emptiest;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (!takes_part(id) || nodes_[id].gives || nodes_[id].fill() >= mean_fill_) continue;
    if (emptiest && nodes_[id].fill() >= nodes_[*emptiest].fill()) continue;
    if (!takes_shards(map, id) || is_taken(map.nodes[id].domain)) continue;
    emptiest = id;
  }
  return emptiest;
}

std::vector<ShardMove> Balance::take(const node::ClusterMap& map, const coding::Scheme& scheme,
                                     const node::Segment& segment) {
  const auto geometry = geometry_of(scheme, segment);
  if (!geometry) return {};
  std::vector<ShardMove> moves;
  node::Segment after = segment;
  for (size_t i = 0; i < after.placement.size(); ++i) {
    const NodeId from = after.placement[i];
    if (!takes_part(from) || !nodes_[from].gives || nodes_[from].fill() <= mean_fill_) continue;
    const auto to = emptiest_for(map, after, i);
    if (!to || nodes_[from].fill() - nodes_[*to].fill() <= kTolerance) continue;
    const uint64_t bytes = geometry->shard_bytes(segment.state, static_cast<int>(i));
    nodes_[from].used_bytes -= static_cast<double>(bytes);
    nodes_[*to].used_bytes += static_cast<double>(bytes);
    after.placement[i] = *to;
    moves.push_back({.shard = i, .from = from, .to = *to, .bytes = bytes});
  }
  return moves;
}

void Balance::put_back(const ShardMove& move) {
  nodes_[move.from].used_bytes += static_cast<double>(move.bytes);
  nodes_[move.to].used_bytes -= static_cast<double>(move.bytes);
}

}  // namespace elastripe::jobs
