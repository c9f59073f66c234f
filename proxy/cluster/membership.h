// Membership: how one cluster map follows from another (rules 1-4 of docs/consistency.md; docs/
// node-protocol.md, "Maps"). Pure functions of what nodes report; proxy/ops/decider/decider.h
// drives them.
//
// What a map states about a partition that is not synced: every acknowledged record of it is on
// each node of at least one group of `sources`, or on each of its homes. The functions keep that
// true whether or not the map before was ever served, so a decider that died half-way does no harm.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/base/error.h"
#include "proxy/cluster/members.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

// What is to be of the cluster.
struct MembershipSettings {
  // By id: name, host, port, domain and role; the rest is ignored. They are the configuration's for
  // a new cluster, else those of the map before, and what is asked for beside.
  std::vector<node::NodeInfo> nodes;
  uint32_t partitions = 1024;
  // M, at least. It never gets less: there may be objects, and pools of other proxies, that need
  // it.
  uint8_t max_parities = 1;
  node::CapabilitySet capabilities = node::own_capabilities();  // of this proxy
  // What a map that has no cluster-wide settings gets, as soon as all members know of such; without
  // times: none.
  node::ClusterSettings own = {};
};

// The cluster-wide settings are to be others; versions and the longest lease are the map's.
struct SettingsChange {
  uint32_t of_version = 0;   // what was changed: if the map has another by then, it is refused
  uint8_t max_parities = 1;  // M, at least
  node::ClusterSettings settings;
};

enum class Verdict : uint8_t {
  kAnswers,
  kSilent,   // timed out: it may be alive
  kRefuses,  // its address refuses connections: the process is gone
};

// For the records of partitions that a node has to be synced for.
enum class Room : uint8_t {
  kForMore,  // as far as is known
  kForOwn,   // it has refused what sync brought it of a partition that it had nothing of
  kNone,     // it has refused even what it had missed of one that it is a source of
};

// What the decider knows of one node.
struct NodeReport {
  Verdict verdict = Verdict::kSilent;
  // As the last answer told it; meaningful while it answers.
  uint64_t incarnation = 0;
  uint64_t max_version = 0;
  node::Epoch epoch;            // of the map that it has installed
  std::vector<uint8_t> synced;  // one bit a partition, under that map
  Room room = Room::kForMore;
  std::optional<node::CapabilitySet> capabilities = {};  // if it has told them
  bool is_removed = false;                               // no member any more: it has no say
};

// What flush_all asks of a map (rule 27).
struct FlushOrder {
  bool now = false;            // whatever was committed under the maps before is dead
  std::optional<uint32_t> at;  // unix seconds of the one flush that is pending, 0: none
};

struct MapRequest {
  std::vector<NodeReport> reports;  // by node id
  // By node id, of a decider that takes over: the maps that the nodes have (null: none).
  std::vector<node::MapPtr> maps;
  uint32_t decider = 0;
  uint32_t above_number = 0;  // the new map's number is above this one, and above the last map's
  FlushOrder flush;
  // What all other proxies of the cluster have; nothing: there are none. They could not follow a
  // map that uses more; but where there was none before, they have nothing to misunderstand.
  std::optional<node::CapabilitySet> proxies_have = {};
  bool was_served = false;  // the map before, by this decider: no node has a lease from earlier
  std::optional<SettingsChange> settings = {};
  // What the operator accepts, of this one map:
  bool accept_loss = false;     // LOST partitions start again, with what was written to them since
  bool give_up_silent = false;  // partitions may become LOST with nodes that are only silent
};

// kInvalid, with the reason, if `map` can not be followed by one of these settings: of another
// number of partitions, or with other nodes than their first ones.
Result<void> check_configuration(const node::ClusterMap& map, const MembershipSettings& settings);

// The first map of a new cluster: every node up, every partition synced and empty. Every configured
// node must answer, and none may have a map.
Result<node::ClusterMap> first_map(const MembershipSettings& settings, const Ring& ring,
                                   const MapRequest& request, uint64_t cluster_id);

// The map after `last`. A partition's homes are the first M+1 nodes of its ring order that are up,
// in distinct domains; of those that lack room only the ones that have all of it already, so that
// it has fewer homes instead of one that can not be synced. kUnavailable: it has to wait, and why
// (more than M nodes have fallen silent since all was synced last, or nobody answers). kLost: it
// has to wait, as a silent node may have the last copy of something. kUnavailable also: this proxy
// lacks a capability that the cluster uses. kInvalid: `last` belongs to another configuration; or,
// of both functions, no number is left above `above_number`.
Result<node::ClusterMap> next_map(const node::ClusterMap& last, const MembershipSettings& settings,
                                  const Ring& ring, const MapRequest& request);

// A map that says of nodes and partitions what `last` does, whatever the reports say: for a decider
// that has to learn what it can only ask under a map of its own. All who are left have `last`.
// kInvalid: no number is left.
Result<node::ClusterMap> same_map(const node::ClusterMap& last, const MembershipSettings& settings,
                                  const MapRequest& request);

// The state and incarnation that `report` gives a node which had `last` (null: not in the map).
struct Standing {
  node::NodeState state = node::NodeState::kLost;
  uint64_t incarnation = 0;
  friend bool operator==(const Standing&, const Standing&) = default;
};
Standing standing_of(const node::NodeInfo* last, const NodeReport& report);

// True if the reports ask for another map, as the nodes' standing has changed or the operator
// accepts a loss.
bool needs_map(const node::ClusterMap& last, const MembershipSettings& settings,
               const MapRequest& request);

// True if a suspect is still silent while everything is synced without it: the next map calls it
// away, so that it does not count as silent, and what only it has is made again.
bool needs_away(const node::ClusterMap& last, const MapRequest& request);

// True if the nodes' standing is as in `last`, yet the next map would have better homes: without
// one that lacks the room to be synced, or with one more, which has room.
bool needs_homes(const node::ClusterMap& last, const Ring& ring, const MapRequest& request);

// True if the nodes' standing is as in `last` and every home has all that it should, yet some
// partitions have other homes than the ring says, to which the next map would move them: a bounded
// number at a time, as each has to be synced.
bool needs_moves(const node::ClusterMap& last, const Ring& ring, const MapRequest& request);
// How many there are, whatever room the nodes have and whoever is synced: a cheaper question.
uint32_t count_misplaced(const node::ClusterMap& map, const Ring& ring);
// So many partitions move in one map that nobody's death or return has moved.
size_t moves_at_once(size_t partitions);

// Whether a decider may start, install maps and grant leases: of the nodes that are not known to be
// gone, more than half answer. Two deciders can not both have that: a process that is gone answers
// neither of them.
constexpr bool is_quorum(size_t configured, size_t refusing, size_t answering) {
  return 2 * answering > configured - refusing;
}

// Bit `partition` of a report.
inline bool has_bit(const std::vector<uint8_t>& bits, size_t partition) {
  return partition / 8 < bits.size() && (bits[partition / 8] >> (partition % 8) & 1) != 0;
}

}  // namespace elastripe
