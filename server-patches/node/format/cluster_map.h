// The cluster map: the agreed list of nodes, their states, and the homes of every partition.
// docs/node-protocol.md, "Maps"; the rules that make maps are in proxy/cluster/membership.h.
#pragma once

#include <memory>
#include <vector>

#include "server-patches/node/format/capability.h"
#include "server-patches/node/format/frame.h"

namespace elastripe::node {

inline constexpr size_t kMaxPartitions = 65536;

// Values are on the wire: never renumber.
enum class NodeState : uint8_t {
  kUp = 0,       // has roles
  kSuspect = 1,  // timed out: no roles, its memory is kept
  kLost = 2,     // its process is gone, its memory with it
  kAway = 3,     // a suspect that all partitions have been synced without
};
const char* name(NodeState state);

// Values are on the wire: never renumber.
enum class NodeRole : uint8_t {
  kMember = 0,
  kDraining = 1,  // serves what it has, and takes nothing new
  kRemoved = 2,   // no member any more; its id stays its own
};
const char* name(NodeRole role);

struct NodeInfo {
  NodeId id = 0;
  std::string name;
  std::string host;
  uint16_t port = 0;
  std::string domain;        // failure domain
  uint64_t incarnation = 0;  // 0: never seen
  NodeState state = NodeState::kLost;
  NodeRole role = NodeRole::kMember;

  bool is_removed() const { return role == NodeRole::kRemoved; }
  friend bool operator==(const NodeInfo&, const NodeInfo&) = default;
};

struct Partition {
  // The first M+1 live nodes with room, in ring order, in distinct domains. A key of a pool with m
  // parities uses the first m+1: the first is its tail, the last its head.
  std::vector<NodeId> homes;
  // True: every home holds all of it (carried over from the epoch before, or a new cluster).
  bool synced = false;
  // False and not synced: sync reads all live nodes of all groups. Every acknowledged record of the
  // partition is on each node of at least one group, so a group without live nodes means LOST.
  std::vector<std::vector<NodeId>> sources;
  bool lost = false;
  friend bool operator==(const Partition&, const Partition&) = default;
};

bool is_source(const Partition& partition, NodeId id);

inline constexpr size_t kMaxSettingsBytes = 14u << 10;  // with a little else they fit in a notice

// What all proxies of a cluster follow, whatever their files say.
struct ClusterSettings {
  uint32_t version = 0;  // one more with every change; 0: the cluster has none, all else is empty
  uint32_t heartbeat_ms = 0;
  uint32_t suspect_after_ms = 0;
  uint32_t lease_ms = 0;
  // Nodes may have leases of an earlier map that are so long.
  uint32_t longest_lease_ms = 0;
  bool refused_is_dead = true;
  std::string text;  // all of them, as proxies write and read them (YAML)

  friend bool operator==(const ClusterSettings&, const ClusterSettings&) = default;
};

struct ClusterMap {
  uint64_t cluster_id = 0;
  Epoch epoch;  // map_hash covers everything else
  // The map that this one was made from, if all that are left of its members had just that one;
  // else number 0.
  Epoch base;
  uint64_t version_floor = 0;  // every version assigned under this map is above it
  // flush_all (rule 27): values whose value_version is not above it are as absent as expired ones.
  uint64_t flush_floor = 0;
  uint32_t flush_at = 0;        // unix seconds at which to flush once more; 0: nobody has asked
  uint8_t max_parities = 1;     // M
  std::vector<NodeInfo> nodes;  // by id
  std::vector<Partition> partitions;
  // What may be used, since all members have it; none is ever taken back.
  CapabilitySet capabilities;
  ClusterSettings settings;

  const NodeInfo* find_node(NodeId id) const { return id < nodes.size() ? &nodes[id] : nullptr; }
  bool is_up(NodeId id) const {
    const NodeInfo* node = find_node(id);
    return node != nullptr && node->state == NodeState::kUp;
  }
  size_t partition_of(std::string_view key) const;  // hash(key) mod P

  friend bool operator==(const ClusterMap&, const ClusterMap&) = default;
};
using MapPtr = std::shared_ptr<const ClusterMap>;

// XXH3 of the key, the same everywhere.
uint64_t hash_key(std::string_view key);

// As part of other messages. What is not possible, as times in the wrong order, fails the reader.
void encode_settings(const ClusterSettings& settings, Writer& w);
ClusterSettings decode_settings(Reader& in);

// Encodes; `seal` first sets epoch.map_hash to the hash of the rest.
void seal(ClusterMap& map);
void encode(const ClusterMap& map, std::string& out);
// Checks the hash, that ids are 0..n-1, that there are partitions, that no partition has more than
// M+1 homes, and that homes and sources name nodes of the map.
Decoded<ClusterMap> decode_map(ByteView in);

}  // namespace elastripe::node
