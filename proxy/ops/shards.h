// Shards on the wire: writing, reading, confirming and deleting them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coding/segment.h"
#include "proxy/cluster/node_client.h"
#include "proxy/ops/context.h"

namespace elastripe {

// In a segment's placement: this shard was never written (degraded write); an erasure from birth.
inline constexpr NodeId kNoNode = 0xFFFF;

node::ShardName shard_name(const node::Segment& segment, const coding::Scheme& scheme,
                           size_t index);

// The geometry of a record's segment; the codec lives as long as the process.
Result<coding::SegmentGeometry> geometry_of(const coding::Scheme& scheme,
                                            const node::Segment& segment);

// What came of asking for one shard.
enum class ShardRead {
  kRead,
  kMissing,      // not here, or a bad page: an erasure for good
  kUnreachable,  // its node is down, suspect or does not answer: an erasure for now
  kStaleEpoch,   // the map is over
};

// What comes of asking a node that the map says is down, without asking; nothing if it is up.
std::optional<ShardRead> read_without_asking(const node::ClusterMap& map, NodeId from);

// Reads the shard from byte `offset` on into `into`, whose sizes add up to what is wanted: the rest
// of the shard, or, if `length` is not 0, so many bytes. Who stops it is answered kUnreachable.
struct ShardRange {
  uint32_t offset = 0;
  uint32_t length = 0;
};
Task<ShardRead> read_shard(OpsContext& ops, MapPtr map, NodeId from, node::ShardName name,
                           std::vector<MutableByteView> into, std::vector<Buffer> keep,
                           TimePoint deadline, ShardRange range = {}, CallStop* stop = nullptr);

// Which of these shards the node has; one entry a name. Fails as the node's refusal does.
Task<Result<std::vector<node::ShardConfirmReply::Entry>>> confirm_shards(
    OpsContext& ops, MapPtr map, NodeId on, std::vector<node::ShardName> names, bool check_pages,
    TimePoint deadline);

// Names in one frame, well below what a node takes.
inline constexpr size_t kShardsPerFrame = 1024;

// Shards to delete, by node, at most kShardsPerFrame in an entry. Shards of nodes that are not up
// are left to reclaim.
struct ShardsOnNode {
  NodeId node = 0;
  std::vector<node::ShardName> names;
};
std::vector<ShardsOnNode> shards_by_node(const coding::Scheme& scheme,
                                         const std::vector<node::Segment>& segments);

// Deletes, as far as nodes answer: what is left over is found by reclaim.
Task<void> delete_shards(OpsContext& ops, std::vector<ShardsOnNode> shards, TimePoint deadline);

// Has the nodes delete them in a while, by their own clocks. Only names that no record can ever
// refer to again, whatever happens meanwhile. How many shards go.
Task<uint64_t> delete_shards_later(OpsContext& ops, std::vector<ShardsOnNode> shards,
                                   Duration after, TimePoint deadline);

// In the background, read_grace from now: shards that a committed record has superseded (rule 8).
// The nodes are told at once, so that the death of this proxy changes nothing; those of objects
// that are overwritten within kDeletionBatch in the same frames.
inline constexpr Duration kDeletionBatch = std::chrono::milliseconds(50);
void delete_after_grace(OpsContext& ops, std::vector<ShardsOnNode> shards);
// The same of shards that others were made of by SHARD_PATCH, kPatchedGrace from now at most: all
// that leads back to them takes memory at their nodes, at each of many small changes.
inline constexpr Duration kPatchedGrace = std::chrono::seconds(1);
void delete_patched(OpsContext& ops, std::vector<ShardsOnNode> shards);

}  // namespace elastripe
