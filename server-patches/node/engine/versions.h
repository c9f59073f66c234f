// Which versions and floors can be true under a map.
#pragma once

#include "server-patches/node/format/cluster_map.h"

namespace elastripe::node {

// Versions above the map's floor are those of commits since that map, one by one. What lies beyond
// any such number comes from a sender that is confused, and would count for good: it is refused.
// Floors keep well below, so that there are versions above them.
constexpr uint64_t max_version(const ClusterMap& map) {
  return map.version_floor + (uint64_t{1} << 48);
}
constexpr uint64_t max_floor(const ClusterMap& map) {
  return map.version_floor + (uint64_t{1} << 47);
}

inline constexpr const char* kNoSuchVersion = "no epoch so far can have assigned such a version";

}  // namespace elastripe::node
