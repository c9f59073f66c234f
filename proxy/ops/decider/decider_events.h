// What the log tells of the membership: a line for each event, of fields that programs can read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/base/log.h"
#include "proxy/base/log_fields.h"
#include "proxy/cluster/membership.h"

namespace elastripe::decider {

// A node that another map has in another state, or as another process.
struct NodeChange {
  node::NodeId id = 0;
  std::optional<node::NodeState> from;  // nothing: no map of this decider's was before
  node::NodeState to = node::NodeState::kUp;
  bool is_other_process = false;
  std::optional<node::NodeRole> role = {};  // if it has another one now
};
std::vector<NodeChange> node_changes(const node::ClusterMap* before, const node::ClusterMap& next);

LogFields fields_of(const NodeChange& change, const node::ClusterMap& next, std::string_view why);
// How many nodes are in which state.
LogFields fields_of(const node::ClusterMap& map);

inline void log_membership(LogLevel level, const LogFields& fields) {
  log_at(level, "membership: {}", fields.text());
}

}  // namespace elastripe::decider
