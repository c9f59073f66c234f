#include "proxy/ops/decider/decider_events.h"

#include <algorithm>

#include "proxy/ops/decider/decider_impl.h"

namespace elastripe::decider {

using node::ClusterMap;
using node::NodeState;

std::vector<NodeChange> node_changes(const ClusterMap* before, const ClusterMap& next) {
  std::vector<NodeChange> changes;
  for (const node::NodeInfo& node : next.nodes) {
    const node::NodeInfo* was = before == nullptr ? nullptr : before->find_node(node.id);
    if (node.is_removed() && (was == nullptr || was->is_removed())) continue;
    NodeChange change{.id = node.id, .from = std::nullopt, .to = node.state};
    if (was != nullptr) {
      change.from = was->state;
      change.is_other_process =
          node.state == NodeState::kUp && node.incarnation != was->incarnation;
      if (was->role != node.role) change.role = node.role;
      if (was->state == node.state && !change.role && !change.is_other_process) continue;
    }
    changes.push_back(change);
  }
  return changes;
}

LogFields fields_of(const NodeChange& change, const ClusterMap& next, std::string_view why) {
  return LogFields()
      .add("node", next.nodes[change.id].name)
      .add("from", change.from ? node::name(*change.from) : "unknown")
      .add("to", node::name(change.to))
      .add("epoch", next.epoch.number)
      .add("reason", why);
}

LogFields fields_of(const ClusterMap& map) {
  std::vector<node::NodeInfo> members = map.nodes;
  std::erase_if(members, [](const node::NodeInfo& node) { return node.is_removed(); });
  LogFields fields;
  fields.add("event", "map").add("epoch", map.epoch.number).add("nodes", members.size());
  for (const auto state :
       {NodeState::kUp, NodeState::kSuspect, NodeState::kAway, NodeState::kLost}) {
    fields.add(node::name(state), std::ranges::count(members, state, &node::NodeInfo::state));
  }
  fields.add("draining",
             std::ranges::count(members, node::NodeRole::kDraining, &node::NodeInfo::role));
  return fields;
}

std::string Decider::Impl::reason_of(const NodeChange& change) const {
  const Peer& peer = peers_[change.id];
  if (change.role) {
    switch (*change.role) {
      case node::NodeRole::kMember:
        return "the operator lets it take new data";
      case node::NodeRole::kDraining:
        return "the operator drains it";
      case node::NodeRole::kRemoved:
        return "the operator removes it";
    }
  }
  switch (change.to) {
    case NodeState::kUp:
      if (change.is_other_process) return "it answers, as a process that is empty";
      return change.from ? "it answers again" : "it answers";
    case NodeState::kSuspect:
      return "it does not answer";
    case NodeState::kAway:
      return "everything was synced without it";
    case NodeState::kLost:
      break;
  }
  if (peer.is_vouched_dead()) return "the operator declares it dead";
  if (peer.is_stray) return "a process of another cluster has its address";
  if (peer.lacks != node::CapabilitySet()) return "it lacks " + node::to_string(peer.lacks);
  if (peer.report.verdict == Verdict::kRefuses) return "its address refuses connections";
  if (peer.report.verdict == Verdict::kAnswers) return "it answers, as a process that is empty";
  return "it does not answer, and is given up";
}

void Decider::Impl::log_changes(const ClusterMap* before) const {
  log_membership(LogLevel::kInfo, fields_of(*map_));
  for (const NodeChange& change : node_changes(before, *map_)) {
    log_membership(change.to == NodeState::kLost ? LogLevel::kWarning : LogLevel::kInfo,
                   fields_of(change, *map_, reason_of(change)));
  }
}

}  // namespace elastripe::decider
