#include "proxy/ops/decider/decider_status.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace elastripe::decider {

namespace {

bool has_told_synced(const node::ClusterMap& map, const Peer& home, uint32_t partition) {
  return home.report.epoch == map.epoch && has_bit(home.report.synced, partition);
}

}  // namespace

std::vector<node::NodeInfo> configured_nodes(const DeciderSettings& settings) {
  std::vector<node::NodeInfo> nodes;
  nodes.reserve(settings.nodes.size());
  for (const ConfiguredNode& node : settings.nodes) {
    node::NodeInfo info;
    info.id = static_cast<NodeId>(nodes.size());
    info.name = node.name;
    info.host = node.host;
    info.port = node.port;
    info.domain = node.domain.empty() ? node.name : node.domain;
    nodes.push_back(std::move(info));
  }
  return nodes;
}

void note_free_bytes(const NodeRooms& rooms, node::NodeId id, Peer& peer) {
  if (peer.report.verdict != Verdict::kAnswers) {
    // Unknown, not full: it may be served before the next turn corrects it.
    rooms.note_free_bytes(id, UINT64_MAX);
  } else if (std::exchange(peer.told_free_bytes, false)) {
    rooms.note_free_bytes(id, peer.free_bytes);
    rooms.note_limit_bytes(id, peer.statistics.limit_bytes);
  }
}

bool is_synced(const node::ClusterMap& map, const std::deque<Peer>& peers, uint32_t partition) {
  const node::Partition& homes = map.partitions[partition];
  if (homes.synced) return true;
  return std::ranges::all_of(
      homes.homes, [&](node::NodeId id) { return has_told_synced(map, peers[id], partition); });
}

void describe_nodes(ClusterStatus& status, const node::ClusterMap* map,
                    const std::vector<node::NodeInfo>& asked, const std::deque<Peer>& peers,
                    TimePoint now) {
  status.nodes.reserve(peers.size());
  for (size_t id = 0; id < peers.size(); ++id) {
    NodeStatus& node = status.nodes.emplace_back(peers[id].status(now));
    // A follower asks a new member before it serves the map that has it.
    const node::NodeInfo* member =
        map == nullptr ? nullptr : map->find_node(static_cast<NodeId>(id));
    node.info = member != nullptr ? *member : asked[id];
    if (member == nullptr) node.info.incarnation = peers[id].report.incarnation;
  }
}

void describe_epoch(ClusterStatus& status, const node::ClusterMap& map) {
  status.epoch = map.epoch;
  status.capabilities = map.capabilities;
  status.flush_at = map.flush_at;
  status.cluster_id = map.cluster_id;
  status.settings_version = map.settings.version;
}

void describe_map(ClusterStatus& status, const node::ClusterMap& map,
                  const std::deque<Peer>& peers) {
  describe_epoch(status, map);
  status.partitions = static_cast<uint32_t>(map.partitions.size());
  if (map.nodes.size() > peers.size()) return;  // it has members that are not asked yet
  for (uint32_t p = 0; p < map.partitions.size(); ++p) {
    const node::Partition& partition = map.partitions[p];
    status.partitions_lost += partition.lost;
    const bool synced = is_synced(map, peers, p);
    status.partitions_synced += !partition.lost && synced;
    for (node::NodeId id = 0; id < status.nodes.size() && !synced; ++id) {
      status.nodes[id].partitions_source += node::is_source(partition, id);
    }
    for (const node::NodeId home : partition.homes) {
      ++status.nodes[home].partitions_home;
      status.nodes[home].partitions_synced +=
          partition.synced || has_told_synced(map, peers[home], p);
    }
  }
}

void show_one_decider(std::vector<KnownProxy>& proxies, uint32_t of_map) {
  const auto rank = [&](const KnownProxy& proxy) {
    const bool decides = proxy.card.decides_as != 0;
    const bool is_of_map = decides && proxy.card.decides_as == of_map;
    return std::tuple(decides && proxy.is_self, is_of_map, decides, -proxy.age);
  };
  const auto counts = std::ranges::max_element(proxies, {}, rank);
  for (auto proxy = proxies.begin(); proxy != proxies.end(); ++proxy) {
    if (proxy != counts) proxy->card.decides_as = 0;
  }
}

void leave_out_removed(ClusterStatus& status) {
  std::erase_if(status.nodes, [](const NodeStatus& node) { return node.info.is_removed(); });
}

}  // namespace elastripe::decider
