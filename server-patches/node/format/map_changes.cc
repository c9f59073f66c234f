#include "server-patches/node/format/map_changes.h"

#include <algorithm>
#include <vector>

#include "server-patches/node/format/map_parts.h"
#include "server-patches/node/format/message_parts.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::node {
namespace {

std::vector<const NodeInfo*> changed_nodes(const ClusterMap& base, const ClusterMap& next) {
  std::vector<const NodeInfo*> changed;
  for (const NodeInfo& node : next.nodes) {
    const NodeInfo* const before = base.find_node(node.id);
    if (before == nullptr || *before != node) changed.push_back(&node);
  }
  return changed;
}

std::vector<uint32_t> changed_partitions(const ClusterMap& base, const ClusterMap& next) {
  std::vector<uint32_t> changed;
  for (uint32_t p = 0; p < next.partitions.size(); ++p) {
    if (base.partitions[p] != next.partitions[p]) changed.push_back(p);
  }
  return changed;
}

// Into `next`, which has no nodes and no partitions yet. Returns the hash of the base.
uint64_t read_head(Reader& in, ClusterMap& next) {
  const uint64_t base_hash = in.u64();
  next.epoch.map_hash = in.u64();
  decode_head(in, next);
  return base_hash;
}

// Ascending, so that no node is told twice, and those that are added are behind the others.
void read_nodes(Reader& in, ClusterMap& next) {
  std::optional<NodeId> last;
  for (size_t left = in.count<uint16_t>(kNodeBytes + 1); left > 0 && in.ok(); --left) {
    NodeInfo node = decode_node(in);
    node.role = decode_role(in);
    if ((last && node.id <= *last) || node.id > next.nodes.size()) return in.fail();
    last = node.id;
    if (node.id == next.nodes.size()) next.nodes.emplace_back();
    next.nodes[*last] = std::move(node);
  }
}

void read_partitions(Reader& in, ClusterMap& next) {
  std::optional<uint32_t> last;
  size_t groups = 0;
  const size_t changed = in.count<uint32_t>(sizeof(uint32_t) + kPartitionBytes);
  for (size_t left = changed; left > 0 && in.ok(); --left) {
    const uint32_t p = in.u32();
    if ((last && p <= *last) || p >= next.partitions.size()) return in.fail();
    last = p;
    next.partitions[p] = decode_partition(in, next);
    groups += next.partitions[p].sources.size();
    if (groups > kMaxGroups) return in.fail();
  }
}

}  // namespace

std::optional<std::string> changes_between(const ClusterMap& base, const ClusterMap& next) {
  if (base.cluster_id != next.cluster_id || base.partitions.size() != next.partitions.size() ||
      base.nodes.size() > next.nodes.size()) {
    return std::nullopt;
  }
  std::string changes;
  Writer w(changes);
  w.u64(base.epoch.map_hash);
  w.u64(next.epoch.map_hash);
  encode_head(next, w);
  const auto nodes = changed_nodes(base, next);
  w.u16(static_cast<uint16_t>(nodes.size()));
  for (const NodeInfo* const node : nodes) {
    encode_node(*node, w);
    w.u8(static_cast<uint8_t>(node->role));
  }
  const auto partitions = changed_partitions(base, next);
  w.u32(static_cast<uint32_t>(partitions.size()));
  for (const uint32_t p : partitions) {
    w.u32(p);
    encode_partition(next.partitions[p], w);
  }
  w.u64(next.capabilities.bits());
  const bool tells_settings = base.settings != next.settings;
  w.u8(tells_settings);
  if (tells_settings) encode_settings(next.settings, w);
  return changes;
}

Decoded<MapChangesHead> decode_changes_head(ByteView changes) {
  Reader in(changes);
  ClusterMap next;
  const uint64_t base_hash = read_head(in, next);
  if (!in.ok()) return std::unexpected("changes of a map are cut off");
  return MapChangesHead{base_hash, next.cluster_id, next.epoch, next.version_floor};
}

Decoded<ChangedMap> apply_changes(const ClusterMap& base, ByteView changes) {
  Reader in(changes);
  ChangedMap changed;
  ClusterMap& next = changed.map;
  const uint64_t base_hash = read_head(in, next);
  if (!in.ok()) return std::unexpected("changes of a map are cut off");
  const bool fits = base_hash == base.epoch.map_hash || mutant(Mutant::kChangesOfAnyBase);
  if (!fits || next.cluster_id != base.cluster_id) {
    return std::unexpected("the changes are of another map");
  }
  next.nodes = base.nodes;
  read_nodes(in, next);
  if (!in.ok()) return std::unexpected("changes of a map have a malformed node");
  next.partitions = base.partitions;
  read_partitions(in, next);
  if (!in.ok()) return std::unexpected("changes of a map have a malformed partition");
  next.capabilities = CapabilitySet(in.u64());
  next.settings = read_flag(in) ? decode_settings(in) : base.settings;
  if (!in.ok()) return std::unexpected("changes of a map are cut off");
  encode(next, changed.encoded);
  if (changed.encoded.size() > kMaxBodyBytes) {
    return std::unexpected("the changed map would not fit in a frame");
  }
  if (mutant(Mutant::kChangesOfAnyBase)) return changed;
  auto decoded = decode_map(as_view(changed.encoded));
  if (!decoded) return std::unexpected("changed as told, the " + decoded.error());
  next = std::move(*decoded);
  return changed;
}

}  // namespace elastripe::node
