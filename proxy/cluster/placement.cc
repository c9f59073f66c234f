#include "proxy/cluster/placement.h"

#include <algorithm>
#include <string_view>

namespace elastripe {
namespace {

// The first `count` up nodes of the ring's order, none of `left_out`, in domains that are neither
// used nor `taken`.
std::vector<node::NodeId> walk(const node::ClusterMap& map, const Ring& ring, size_t partition,
                               size_t count, std::vector<std::string_view> taken,
                               const std::vector<node::NodeId>& left_out) {
  std::vector<node::NodeId> chosen;
  for (const node::NodeId id : ring.order(partition)) {
    if (chosen.size() == count) break;
    if (!map.is_up(id) || std::ranges::find(left_out, id) != left_out.end()) continue;
    const std::string_view domain = map.nodes[id].domain;
    if (std::ranges::find(taken, domain) != taken.end()) continue;
    taken.push_back(domain);
    chosen.push_back(id);
  }
  return chosen;
}

}  // namespace

Result<std::vector<node::NodeId>> choose_nodes(const node::ClusterMap& map, const Ring& ring,
                                               size_t partition, size_t count,
                                               const std::vector<node::NodeId>& exclude) {
  std::vector<std::string_view> taken;
  for (const node::NodeId id : exclude) {
    if (const auto* node = map.find_node(id)) taken.push_back(node->domain);
  }
  auto chosen = walk(map, ring, partition, count, std::move(taken), {});
  if (chosen.size() < count) {
    return fail(ErrorCode::kUnavailable, "{} nodes in distinct domains are needed, {} are up",
                count, chosen.size());
  }
  return chosen;
}

std::vector<node::NodeId> homes_of(const node::ClusterMap& map, const Ring& ring, size_t partition,
                                   size_t count, const std::vector<node::NodeId>& left_out) {
  return walk(map, ring, partition, count, {}, left_out);
}

}  // namespace elastripe
