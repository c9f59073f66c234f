// When `elastripe node wait` is over, from what a proxy tells (docs/admin-api.md): pure functions.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace elastripe::cli {

// What a proxy told of /v1/nodes and of /v1/status.
struct NodeSighting {
  const nlohmann::ordered_json& nodes;
  const nlohmann::ordered_json& status;
  // From when the command began until each was asked for.
  std::chrono::milliseconds nodes_asked;
  std::chrono::milliseconds status_asked;
};

// What is of no use any more: an answer that comes so soon after the command began may have left
// its node, or its proxy, before.
inline constexpr std::chrono::milliseconds kOnTheWay{1000};

// So long a wait takes at least, whatever is asked for: sooner nothing can be known.
inline constexpr std::chrono::seconds kShortestWait{3};

// What `elastripe node wait` still waits for, in words. Empty: the node is up, and nothing lacks
// redundancy.
std::string awaited_of(const NodeSighting& seen, const std::string& name);

// True if the cluster has no such node, as its map says.
bool is_unknown(const NodeSighting& seen, const std::string& name);

// Null: there is none of that name.
nlohmann::ordered_json node_named(const nlohmann::ordered_json& nodes, const std::string& name);

// ": " and what keeps repair from going on, if anything does.
std::string hold_up_of_repair(const nlohmann::ordered_json& status);

}  // namespace elastripe::cli
