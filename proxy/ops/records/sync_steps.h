// Steps of sync: what syncing one key and sweeping whole partitions have in common.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/context.h"

namespace elastripe::records {

// The nodes of all groups of sources.
std::vector<NodeId> sources_of(const node::Partition& partition);
// All whose copies count: sources and homes.
std::vector<NodeId> holders_of(const node::Partition& partition);

// MARK_SYNCED at each of `homes`; the first error.
Task<Result<void>> mark_all(NodeClient& nodes, MapPtr map, std::vector<NodeId> homes,
                            node::MarkSyncedRequest message, TimePoint deadline);

// RAISE_FLOOR at each of `homes`; the first error.
Task<Result<void>> raise_floors(NodeClient& nodes, MapPtr map, std::vector<NodeId> homes,
                                node::RaiseFloorRequest message, TimePoint deadline);

// Store-if-greater at one home, with the log of the record, if it has one. OK too if the home is
// synced already and has collected a newer tombstone.
Task<Result<void>> store_synced(OpsContext& ops, MapPtr map, NodeId home, std::string key,
                                EncodedRecord record, TimePoint deadline, LogViewPtr log = nullptr);

// sync_key(), but for kNoSpace: a home lacks the room.
Task<Result<void>> sync_one(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline);

}  // namespace elastripe::records
