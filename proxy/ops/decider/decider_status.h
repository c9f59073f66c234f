// What a map and its nodes tell of the cluster: for who decides, and for who follows.
#pragma once

#include <deque>

#include "proxy/ops/decider/decider_peer.h"

namespace elastripe::decider {

// Why a process that has served a cluster neither forms another one nor joins it (MapView).
inline constexpr char kOtherCluster[] =
    "no node has a map of the cluster that this proxy has served: restart it, and it joins the one "
    "that the nodes are of now, or forms one";

// As the configuration names them, by id.
std::vector<node::NodeInfo> configured_nodes(const DeciderSettings& settings);

// Tells all threads what the node told last of its room.
void note_free_bytes(const NodeRooms& rooms, node::NodeId id, Peer& peer);

// Every home has it: only then is it safe to collect in it, and is the promise of m crashes whole.
bool is_synced(const node::ClusterMap& map, const std::deque<Peer>& peers, uint32_t partition);

// Fills in the nodes, but for their leases, which the caller knows. Null: no map is known; the
// nodes are those that are asked.
void describe_nodes(ClusterStatus& status, const node::ClusterMap* map,
                    const std::vector<node::NodeInfo>& asked, const std::deque<Peer>& peers,
                    TimePoint now);
// Fills in what holds for the map as a whole.
void describe_epoch(ClusterStatus& status, const node::ClusterMap& map);
// Fills in all that the map says, and of its partitions what the nodes told.
void describe_map(ClusterStatus& status, const node::ClusterMap& map,
                  const std::deque<Peer>& peers);
// Cards of who decided a moment ago say so yet: the one that counts is this proxy, or the one whose
// map is served, or the last that was heard of.
void show_one_decider(std::vector<KnownProxy>& proxies, uint32_t of_map);
// Last of all.
void leave_out_removed(ClusterStatus& status);

}  // namespace elastripe::decider
