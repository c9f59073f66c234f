#include "proxy/cluster/placement.h"

#include <algorithm>
#include <string_view>

namespace elastripe {
namespace {

using node::NodeId;

bool contains(std::span<const NodeId> ids, NodeId id) {
  return std::ranges::find(ids, id) != ids.end();
}

// Nodes in distinct domains, up to a number of them.
struct Chosen {
  size_t count;
  std::vector<std::string_view> taken;  // domains
  std::vector<NodeId> nodes{};

  // The next up nodes of the ring's order that `may` lets.
  template <class May>
  void walk(const node::ClusterMap& map, const Ring& ring, size_t partition, May may) {
    if (nodes.size() == count) return;
    for (const NodeId id : ring.order(partition)) {
      if (!map.is_up(id) || !may(id)) continue;
      const std::string_view domain = map.nodes[id].domain;
      if (std::ranges::find(taken, domain) != taken.end()) continue;
      taken.push_back(domain);
      nodes.push_back(id);
      if (nodes.size() == count) return;
    }
  }
};

bool is_draining(const node::ClusterMap& map, NodeId id) {
  return map.nodes[id].role == node::NodeRole::kDraining;
}

// Half of what an up node has left on average.
uint64_t comfortable_bytes(const node::ClusterMap& map, const NodeRooms& rooms) {
  uint64_t sum = 0;
  uint64_t known = 0;
  for (const node::NodeInfo& node : map.nodes) {
    const uint64_t left = rooms.left_bytes(node.id);
    if (!map.is_up(node.id) || left == UINT64_MAX) continue;
    sum += left;
    ++known;
  }
  return known == 0 ? 0 : sum / known / 2;
}

}  // namespace

Result<std::vector<NodeId>> choose_nodes(const node::ClusterMap& map, const Ring& ring,
                                         size_t partition, size_t count,
                                         const std::vector<NodeId>& exclude,
                                         const ShardRoom& room) {
  Chosen chosen{count, {}};
  for (const NodeId id : exclude) {
    if (const auto* node = map.find_node(id)) chosen.taken.push_back(node->domain);
  }
  const uint64_t comfortable = std::max(comfortable_bytes(map, room.rooms), room.bytes);
  for (const uint64_t wanted : {comfortable, room.bytes}) {
    chosen.walk(map, ring, partition, [&](NodeId id) {
      return room.rooms.left_bytes(id) > wanted && !contains(room.refused, id) &&
             !is_draining(map, id);
    });
  }
  chosen.walk(map, ring, partition, [&](NodeId id) {
    return room.rooms.left_bytes(id) > room.bytes && !contains(room.refused, id);
  });
  const size_t with_room = chosen.nodes.size();
  chosen.walk(map, ring, partition, [](NodeId) { return true; });
  if (chosen.nodes.size() < count) {
    return fail(ErrorCode::kUnavailable, "{} nodes in distinct domains are needed, {} are up",
                count, chosen.nodes.size());
  }
  if (with_room < count && !room.refused.empty()) {
    return fail(ErrorCode::kNoSpace, "{} nodes with room are needed, {} have some", count,
                with_room);
  }
  return std::move(chosen.nodes);
}

std::vector<NodeId> homes_of(const node::ClusterMap& map, const Ring& ring, size_t partition,
                             size_t count, const std::vector<NodeId>& left_out) {
  Chosen chosen{count, {}};
  chosen.walk(map, ring, partition,
              [&](NodeId id) { return !contains(left_out, id) && !is_draining(map, id); });
  chosen.walk(map, ring, partition, [&](NodeId id) { return !contains(left_out, id); });
  return std::move(chosen.nodes);
}

}  // namespace elastripe
