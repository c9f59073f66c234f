// Parts of the encoding of a map, for the sources that encode and decode maps and changes of maps.
#pragma once

#include "server-patches/node/format/cluster_map.h"

namespace elastripe::node {

// The least that an element takes on the wire.
inline constexpr size_t kNodeBytes = 19;
inline constexpr size_t kPartitionBytes = 4;

// The most groups of sources in all partitions together: one takes a few bytes on the wire, and
// many in memory.
inline constexpr size_t kMaxGroups = size_t{1} << 20;

// All before the nodes but the hash.
void encode_head(const ClusterMap& map, Writer& w);
void decode_head(Reader& in, ClusterMap& map);

// A role is told elsewhere.
void encode_node(const NodeInfo& node, Writer& w);
NodeInfo decode_node(Reader& in);
NodeRole decode_role(Reader& in);

void encode_partition(const Partition& partition, Writer& w);
// Homes and sources are nodes of the map, and homes no more than it has copies.
Partition decode_partition(Reader& in, const ClusterMap& map);

}  // namespace elastripe::node
