// Takeover: which of the maps that the nodes have a starting decider builds upon.
#pragma once

#include <vector>

#include "proxy/cluster/membership.h"

namespace elastripe {

// The map that a starting decider builds upon, out of those that the nodes have (null: none), by
// node id. A map was served only if all its members installed it. So if one of them that answers
// has a later map, this one is superseded: the later map's decider, whose INSTALL_MAP named the map
// that it replaces, knew it. And if one has an earlier map, this one was never served, and counts
// only if it supersedes another. What is left is the map that may be in use, or knows the one that
// is. If more than M nodes are gone that may have had a later one, all its partitions are LOST.
// Null: no node has a map. kUnavailable: nodes of different clusters; or there is a silent node,
// which may have a later map, or tell which of several is the one.
Result<node::MapPtr> choose_base(const std::vector<NodeReport>& reports,
                                 const std::vector<node::MapPtr>& maps);

}  // namespace elastripe
