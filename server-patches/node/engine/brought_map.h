// A map as INSTALL_MAP brings it, read without the gate. docs/node-protocol.md, "Changes of maps".
#pragma once

#include <optional>
#include <string>

#include "server-patches/node/engine/answer.h"
#include "server-patches/node/engine/engine.h"
#include "server-patches/node/format/map_changes.h"

namespace elastripe::node {

// What a node tells of its map to those who have the map before.
struct KeptChanges {
  uint64_t base_hash = 0;
  std::string bytes;  // empty: there are none that are worth it

  bool are_of(uint64_t hash) const { return !bytes.empty() && base_hash == hash; }
};

struct BroughtMap {
  MapChangesHead head;  // of a whole map too, which has no base
  bool is_changes = false;
  MapPtr installed;          // when it was read; changes are applied to it
  Decoded<ChangedMap> made;  // an error: the changes are of another map, or malformed
  KeptChanges kept;          // since `installed`
};

// `installed` is null if the node has no map. Errors: what is malformed whatever the node has.
Decoded<BroughtMap> read_map(const Frame& frame, MapPtr installed, CapabilitySet capabilities);

// Under the gate: why the map is not installed by a node that has `map`, or null; OK: it is there
// already.
std::optional<Answer> check_map(const Frame& frame, const BroughtMap& brought,
                                const ClusterMap* map);

}  // namespace elastripe::node
