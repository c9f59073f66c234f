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
// is.
//
// `own` (null: none) is the map that was served last where the decider is. It was in use, whoever
// has it by now: without it, nodes that were left out and return, when all others have crashed, may
// look like the ones that are left of M crashes, and their old records would count. It counts for
// nothing once a node tells a later one.
//
// Null: nobody has a map. kInvalid: nodes of different clusters. kUnavailable: there is a silent
// node, which may have a later map, or tell which of several is the one. kLost: all who had `own`
// are gone, or more than M members of the newest map are, which may have served a later one with
// the survivors left out, so that what these have may be old. They keep it while the decider waits:
// for the others, should they live after all, or for the operator, who accepts the loss: then all
// partitions are LOST.
Result<node::MapPtr> choose_base(const std::vector<NodeReport>& reports,
                                 const std::vector<node::MapPtr>& maps,
                                 const node::MapPtr& own = nullptr, bool accept_loss = false);

// Finds, among the maps that were found (null: none), the newest of the cluster that most are of.
// Maps of other clusters than the configured one do not count: without any node that is configured;
// or with another number of partitions, unless no map has the configured one. Then the
// configuration is what is wrong. Null: there is none, or no cluster has the most.
node::MapPtr newest_of_cluster(const std::vector<node::MapPtr>& maps,
                               const std::vector<node::NodeInfo>& configured, uint32_t partitions);

// Whether the map knows the process that told it, of this incarnation, as the node that was asked;
// or, if it leaves that process out, has that node at the same address.
bool names_as_known(const node::ClusterMap& map, const node::NodeInfo& asked, uint64_t incarnation);

// The nodes, by id, whose process belongs to another cluster than ours: that of `own`, the map
// which was served last where the decider is, if any node has one of it. Else (and for null), of
// the maps that fit the configuration, ours is the one that most nodes have; kInvalid if as many
// have another one.
Result<std::vector<node::NodeId>> find_strays(const MembershipSettings& settings,
                                              const std::vector<NodeReport>& reports,
                                              const std::vector<node::MapPtr>& maps,
                                              const node::MapPtr& own = nullptr);

// Whether a partition is LOST in `next` that was not in `last`.
bool loses_more(const node::ClusterMap& last, const node::ClusterMap& next);

}  // namespace elastripe
