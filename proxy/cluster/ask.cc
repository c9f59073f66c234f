#include "proxy/cluster/ask.h"

namespace elastripe {

using node::Status;

namespace {

ErrorCode code_of(Status status) {
  switch (status) {
    case Status::kStaleEpoch:
    case Status::kNoLease:
    case Status::kJoining:
    case Status::kNotHome:
    case Status::kNotSynced:
      return ErrorCode::kStaleEpoch;
    case Status::kLost:
      return ErrorCode::kLost;
    case Status::kNoSpace:
      return ErrorCode::kNoSpace;
    case Status::kNotFound:
    case Status::kNotHere:
    case Status::kBadPage:
      return ErrorCode::kNotFound;
    case Status::kTooLarge:
      return ErrorCode::kTooLarge;
    case Status::kConditionFailed:
    case Status::kFenced:
    case Status::kExists:
      return ErrorCode::kConflict;
    default:
      return ErrorCode::kInvalid;
  }
}

// In the words of docs/consistency.md: clients are shown it.
std::string reason_of(const std::string& node, const NodeReply& reply) {
  switch (reply.status()) {
    case Status::kLost:
      return "every home of the key's partition crashed";
    case Status::kStaleEpoch:
      return fmt::format("node {} has another cluster map", node);
    case Status::kNoLease:
      return fmt::format("node {} has no lease", node);
    case Status::kJoining:
      return fmt::format("node {} is in no cluster map yet", node);
    case Status::kNotHome:
      return fmt::format("node {} is no home of the key in its map", node);
    case Status::kNotSynced:
      return fmt::format("node {} has not synced the key yet", node);
    case Status::kNoSpace:
      return fmt::format("node {} is full", node);
    default:
      return fmt::format("node {} answers {} to {}", node, node::name(reply.status()),
                         node::name(reply.header.opcode));
  }
}

}  // namespace

std::string node_name(const node::ClusterMap& map, NodeId node) {
  const node::NodeInfo* info = map.find_node(node);
  return info == nullptr ? std::to_string(node) : info->name;
}

Error refusal(const node::ClusterMap& map, NodeId node, const NodeReply& reply) {
  return {code_of(reply.status()), reason_of(node_name(map, node), reply)};
}

Error malformed(const node::ClusterMap& map, NodeId node, std::string_view why) {
  return {ErrorCode::kDisconnected, fmt::format("node {}: {}", node_name(map, node), why)};
}

}  // namespace elastripe
