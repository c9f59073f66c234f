#include "server-patches/node/format/cluster_map.h"

#include <xxhash.h>

#include <algorithm>

#include "coding/scheme.h"
#include "server-patches/node/format/map_parts.h"

namespace elastripe::node {
namespace {

constexpr uint8_t kSyncedFlag = 1;
constexpr uint8_t kLostFlag = 2;
constexpr size_t kHashBytes = 8;

void encode_ids(const std::vector<NodeId>& ids, Writer& w) {
  w.u8(static_cast<uint8_t>(ids.size()));
  for (const NodeId id : ids) w.u16(id);
}

// Everything but the hash itself, which comes first on the wire.
void encode_body(const ClusterMap& map, std::string& out) {
  Writer w(out);
  encode_head(map, w);
  w.u16(static_cast<uint16_t>(map.nodes.size()));
  for (const NodeInfo& node : map.nodes) encode_node(node, w);
  w.u32(static_cast<uint32_t>(map.partitions.size()));
  for (const Partition& partition : map.partitions) encode_partition(partition, w);
  w.u64(map.capabilities.bits());
  if (map.capabilities.has(Capability::kMembers)) {
    for (const NodeInfo& node : map.nodes) w.u8(static_cast<uint8_t>(node.role));
  }
  if (map.capabilities.has(Capability::kSettings)) encode_settings(map.settings, w);
}

std::vector<NodeId> decode_ids(Reader& in, size_t nodes) {
  std::vector<NodeId> ids(in.count<uint8_t>(sizeof(NodeId)));
  for (NodeId& id : ids) {
    id = in.u16();
    if (id >= nodes) in.fail();
  }
  return ids;
}

// Who is removed has no part in anything.
void decode_roles(Reader& in, ClusterMap& map) {
  for (NodeInfo& node : map.nodes) {
    node.role = decode_role(in);
    if (node.is_removed() && node.state == NodeState::kUp) return in.fail();
  }
}

constexpr uint32_t kMaxTime_ms = 3'600'000;

bool are_possible(const ClusterSettings& settings) {
  const auto times = {uint32_t{1},       settings.heartbeat_ms,     settings.suspect_after_ms,
                      settings.lease_ms, settings.longest_lease_ms, kMaxTime_ms};
  return std::ranges::is_sorted(times);
}

}  // namespace

void encode_head(const ClusterMap& map, Writer& w) {
  w.u64(map.cluster_id);
  w.u32(map.epoch.number);
  w.u32(map.epoch.decider);
  w.u32(map.base.number);
  w.u32(map.base.decider);
  w.u64(map.base.map_hash);
  w.u64(map.version_floor);
  w.u64(map.flush_floor);
  w.u32(map.flush_at);
  w.u8(map.max_parities);
}

void decode_head(Reader& in, ClusterMap& map) {
  map.cluster_id = in.u64();
  map.epoch.number = in.u32();
  map.epoch.decider = in.u32();
  map.base.number = in.u32();
  map.base.decider = in.u32();
  map.base.map_hash = in.u64();
  map.version_floor = in.u64();
  map.flush_floor = in.u64();
  map.flush_at = in.u32();
  map.max_parities = in.u8();
}

void encode_node(const NodeInfo& node, Writer& w) {
  w.u16(node.id);
  w.short_string(node.name);
  w.short_string(node.host);
  w.u16(node.port);
  w.short_string(node.domain);
  w.u64(node.incarnation);
  w.u8(static_cast<uint8_t>(node.state));
}

NodeInfo decode_node(Reader& in) {
  NodeInfo node;
  node.id = in.u16();
  node.name = in.short_string();
  node.host = in.short_string();
  node.port = in.u16();
  node.domain = in.short_string();
  node.incarnation = in.u64();
  const uint8_t state = in.u8();
  if (state > static_cast<uint8_t>(NodeState::kAway)) in.fail();
  node.state = static_cast<NodeState>(state);
  return node;
}

NodeRole decode_role(Reader& in) {
  const uint8_t role = in.u8();
  if (role > static_cast<uint8_t>(NodeRole::kRemoved)) in.fail();
  return static_cast<NodeRole>(role);
}

void encode_partition(const Partition& partition, Writer& w) {
  w.u8(static_cast<uint8_t>((partition.synced ? kSyncedFlag : 0) |
                            (partition.lost ? kLostFlag : 0)));
  encode_ids(partition.homes, w);
  w.u16(static_cast<uint16_t>(partition.sources.size()));
  for (const auto& group : partition.sources) encode_ids(group, w);
}

Partition decode_partition(Reader& in, const ClusterMap& map) {
  Partition partition;
  const uint8_t flags = in.u8();
  if ((flags & ~(kSyncedFlag | kLostFlag)) != 0) in.fail();
  partition.synced = (flags & kSyncedFlag) != 0;
  partition.lost = (flags & kLostFlag) != 0;
  partition.homes = decode_ids(in, map.nodes.size());
  if (partition.homes.size() > map.max_parities + size_t{1}) in.fail();
  const size_t groups = in.count<uint16_t>(1);
  partition.sources.reserve(groups);
  for (size_t i = 0; i < groups && in.ok(); ++i) {
    partition.sources.push_back(decode_ids(in, map.nodes.size()));
  }
  return partition;
}

const char* name(NodeState state) {
  switch (state) {
    case NodeState::kUp:
      return "up";
    case NodeState::kSuspect:
      return "suspect";
    case NodeState::kLost:
      return "lost";
    case NodeState::kAway:
      return "away";
  }
  return "unknown";
}

const char* name(NodeRole role) {
  switch (role) {
    case NodeRole::kMember:
      return "member";
    case NodeRole::kDraining:
      return "draining";
    case NodeRole::kRemoved:
      return "removed";
  }
  return "unknown";
}

uint64_t hash_key(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

bool is_source(const Partition& partition, NodeId id) {
  return std::ranges::any_of(partition.sources, [&](const std::vector<NodeId>& group) {
    return std::ranges::find(group, id) != group.end();
  });
}

void encode_settings(const ClusterSettings& settings, Writer& w) {
  w.u32(settings.version);
  w.u32(settings.heartbeat_ms);
  w.u32(settings.suspect_after_ms);
  w.u32(settings.lease_ms);
  w.u32(settings.longest_lease_ms);
  w.u8(settings.refused_is_dead);
  w.long_string(settings.text);
}

ClusterSettings decode_settings(Reader& in) {
  ClusterSettings settings;
  settings.version = in.u32();
  settings.heartbeat_ms = in.u32();
  settings.suspect_after_ms = in.u32();
  settings.lease_ms = in.u32();
  settings.longest_lease_ms = in.u32();
  const uint8_t refused_is_dead = in.u8();
  if (refused_is_dead > 1) in.fail();
  settings.refused_is_dead = refused_is_dead != 0;
  const std::string_view text = in.long_string();
  if (text.size() > kMaxSettingsBytes) in.fail();
  if (settings.version != 0 && !are_possible(settings)) in.fail();
  settings.text = text;
  return settings;
}

size_t ClusterMap::partition_of(std::string_view key) const {
  return partitions.empty() ? 0 : hash_key(key) % partitions.size();
}

void seal(ClusterMap& map) {
  std::string body;
  encode_body(map, body);
  map.epoch.map_hash = XXH3_64bits(body.data(), body.size());
}

void encode(const ClusterMap& map, std::string& out) {
  Writer(out).u64(map.epoch.map_hash);
  encode_body(map, out);
}

Decoded<ClusterMap> decode_map(ByteView bytes) {
  Reader in(bytes);
  ClusterMap map;
  map.epoch.map_hash = in.u64();
  if (!in.ok()) return std::unexpected("map is cut off");
  const ByteView body = bytes.subspan(kHashBytes);
  if (XXH3_64bits(body.data(), body.size()) != map.epoch.map_hash) {
    return std::unexpected("map does not match its hash");
  }
  decode_head(in, map);
  const size_t nodes = in.count<uint16_t>(kNodeBytes);
  if (!in.ok()) return std::unexpected("map is cut off");
  if (map.max_parities < 1 || map.max_parities > coding::kMaxParities) {
    return std::unexpected("map has a bad number of parities");
  }
  if (map.flush_floor > map.version_floor) {
    return std::unexpected("map flushes what is committed under it");
  }
  map.nodes.reserve(nodes);
  for (size_t i = 0; i < nodes && in.ok(); ++i) {
    map.nodes.push_back(decode_node(in));
    if (map.nodes.back().id != i) in.fail();
  }
  const size_t partitions = in.count<uint32_t>(kPartitionBytes);
  if (!in.ok()) return std::unexpected("map has a malformed node");
  if (partitions < 1 || partitions > kMaxPartitions) {
    return std::unexpected("map has a bad number of partitions");
  }
  map.partitions.reserve(partitions);
  size_t groups = 0;
  for (size_t i = 0; i < partitions && in.ok(); ++i) {
    map.partitions.push_back(decode_partition(in, map));
    groups += map.partitions.back().sources.size();
    if (groups > kMaxGroups) in.fail();
  }
  if (!in.ok()) return std::unexpected("map has a malformed partition");
  if (!in.at_end()) map.capabilities = CapabilitySet(in.u64());
  if (map.capabilities.has(Capability::kMembers)) decode_roles(in, map);
  if (map.capabilities.has(Capability::kSettings)) map.settings = decode_settings(in);
  if (!in.ok()) return std::unexpected("map is cut off");
  return map;
}

}  // namespace elastripe::node
