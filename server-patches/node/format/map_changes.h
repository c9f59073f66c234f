// A cluster map told as what has changed since another one, which the receiver has: a map names
// every partition, and most changes of the membership concern few of them. docs/node-protocol.md,
// "Changes of maps".
//
// Changes lead from one map, by its hash, to one map, by its hash: what they are applied to and
// what comes of it are compared with these, so whoever applies them has the very map that was
// meant, or an error. Both maps are of one cluster; nodes may be added, and never go.
#pragma once

#include <optional>
#include <string>

#include "server-patches/node/format/cluster_map.h"

namespace elastripe::node {

// Nothing where changes can not say it: the maps are of two clusters, or differ in the number of
// partitions, or a node is missing in the later one. Takes a look at every partition. Both maps are
// sealed.
std::optional<std::string> changes_between(const ClusterMap& base, const ClusterMap& next);

// What changes say of themselves, before they are applied.
struct MapChangesHead {
  uint64_t base_hash = 0;  // of the map that they are applied to
  // What they lead to.
  uint64_t cluster_id = 0;
  Epoch epoch;
  uint64_t version_floor = 0;
};
Decoded<MapChangesHead> decode_changes_head(ByteView changes);

struct ChangedMap {
  ClusterMap map;
  std::string encoded;  // whole, at most kMaxBodyBytes
};
// Refuses a base that is not the one which the changes are of, what is malformed, and whatever
// decode_map would refuse of the whole map, its hash among it. Takes no more memory than both maps.
Decoded<ChangedMap> apply_changes(const ClusterMap& base, ByteView changes);

}  // namespace elastripe::node
