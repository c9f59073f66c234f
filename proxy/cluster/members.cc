#include "proxy/cluster/members.h"

#include <algorithm>
#include <limits>
#include <string>

#include "proxy/cluster/membership.h"

namespace elastripe {

using node::NodeInfo;
using node::NodeRole;
using node::NodeState;

namespace {

// The last id means that a shard has no node.
constexpr size_t kMostNodes = std::numeric_limits<node::NodeId>::max();

std::vector<std::string> ring_names(const std::vector<NodeInfo>& nodes) {
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const NodeInfo& node : nodes) names.push_back(node.is_removed() ? "" : node.name);
  return names;
}

std::vector<NodeInfo> identities_of(const std::vector<NodeInfo>& nodes) {
  std::vector<NodeInfo> identities;
  identities.reserve(nodes.size());
  for (const NodeInfo& node : nodes) identities.push_back(identity_of(node));
  return identities;
}

Result<void> add(std::vector<NodeInfo>& nodes, const NodeInfo& wanted) {
  for (const NodeInfo& other : nodes) {
    const bool is_same_place = other.host == wanted.host && other.port == wanted.port;
    if (is_same_place && other.name != wanted.name && !other.is_removed()) {
      return fail(ErrorCode::kConflict, "{}:{} is the address of node {}", other.host, other.port,
                  other.name);
    }
  }
  const auto known = std::ranges::find(nodes, wanted.name, &NodeInfo::name);
  if (known != nodes.end()) {
    if (!known->is_removed() && known->state != NodeState::kLost) {
      return fail(ErrorCode::kConflict, "there is a node {} already, and it is {}", wanted.name,
                  node::name(known->state));
    }
    known->host = wanted.host;
    known->port = wanted.port;
    if (!wanted.domain.empty()) known->domain = wanted.domain;
    if (known->is_removed()) known->role = NodeRole::kMember;
    return {};
  }
  if (nodes.size() >= kMostNodes) {
    return fail(ErrorCode::kConflict, "the cluster has had {} nodes, and may have no more",
                nodes.size());
  }
  nodes.push_back(identity_of(wanted));
  nodes.back().id = static_cast<node::NodeId>(nodes.size() - 1);
  if (nodes.back().domain.empty()) nodes.back().domain = wanted.name;
  return {};
}

}  // namespace

Members::Members(const std::vector<NodeInfo>& nodes_in, uint32_t partitions)
    : nodes(identities_of(nodes_in)),
      hashed(ring_names(nodes_in), partitions),
      even(hashed.evened(nodes)) {}

NodeInfo identity_of(const NodeInfo& node) {
  NodeInfo identity = node;
  identity.incarnation = 0;
  identity.state = NodeState::kLost;
  return identity;
}

bool are_same_members(const std::vector<NodeInfo>& a, const std::vector<NodeInfo>& b) {
  return std::ranges::equal(a, b, {}, identity_of, identity_of);
}

Result<std::vector<NodeInfo>> changed_members(std::vector<NodeInfo> nodes,
                                              const MemberChange& change) {
  if (change.kind == MemberChange::Kind::kAdd) {
    if (auto added = add(nodes, change.node); !added) return fail(added.error());
    return nodes;
  }
  const std::string& name = change.node.name;
  const auto found = std::ranges::find(nodes, name, &NodeInfo::name);
  if (found == nodes.end() || found->is_removed()) {
    return fail(ErrorCode::kNotFound, "no node is named {}", name);
  }
  switch (change.kind) {
    case MemberChange::Kind::kAdd:
      break;
    case MemberChange::Kind::kDrain:
      found->role = NodeRole::kDraining;
      break;
    case MemberChange::Kind::kRefill:
      found->role = NodeRole::kMember;
      break;
    case MemberChange::Kind::kRemove: {
      const auto is_there = [](const NodeInfo& node) { return !node.is_removed(); };
      if (std::ranges::count_if(nodes, is_there) == 1) {
        return fail(ErrorCode::kConflict, "{} is the last node", name);
      }
      found->role = NodeRole::kRemoved;
      found->state = NodeState::kLost;
      break;
    }
  }
  return nodes;
}

std::vector<NodeInfo> merged_members(const std::vector<NodeInfo>& of_map,
                                     const std::vector<NodeInfo>& configured) {
  std::vector<NodeInfo> nodes = identities_of(of_map);
  for (const NodeInfo& node : configured) {
    // A name that is new for the address of a member is no new node.
    const bool is_known = std::ranges::any_of(nodes, [&](const NodeInfo& known) {
      const bool is_same_place = known.host == node.host && known.port == node.port;
      return known.name == node.name || (is_same_place && !known.is_removed());
    });
    if (is_known) continue;
    nodes.push_back(identity_of(node));
    nodes.back().id = static_cast<node::NodeId>(nodes.size() - 1);
  }
  return nodes;
}

Result<void> check_configuration(const node::ClusterMap& last, const MembershipSettings& settings) {
  if (last.partitions.size() != settings.partitions) {
    return fail(ErrorCode::kInvalid, "the cluster has {} partitions, the configuration {}",
                last.partitions.size(), settings.partitions);
  }
  if (last.nodes.size() > settings.nodes.size()) {
    return fail(ErrorCode::kInvalid, "the cluster has {} nodes, and only {} are known here",
                last.nodes.size(), settings.nodes.size());
  }
  for (const node::NodeInfo& node : last.nodes) {
    if (node.name == settings.nodes[node.id].name) continue;
    return fail(ErrorCode::kInvalid, "node {} of the cluster is {}, and is known here as {}",
                node.id, node.name, settings.nodes[node.id].name);
  }
  return {};
}

}  // namespace elastripe
