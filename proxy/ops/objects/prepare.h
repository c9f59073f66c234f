// Prepare: the first phase of a striped PUT. All shards of the object are written under a new
// data_txid; nothing refers to them until the record is committed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proxy/ops/objects/read_segment.h"
#include "proxy/ops/shards.h"

namespace elastripe::objects {

// An object being written: its segments, their parities, and which shards the nodes have confirmed.
struct StagedSegment {
  node::Segment segment;      // placement is empty before it is prepared for the first time
  Semaphore::Permit memory;   // of the two below
  Buffer data;                // of the object; empty before it has come, and once it was let go
  Buffer parities;            // m parity shards, one after the other; empty until encoded
  uint32_t epoch_number = 0;  // under which the nodes have acknowledged; 0: none yet
  TimePoint acknowledged;     // no acknowledgement is older
  std::vector<bool> written;  // by shard, in that epoch; then it stays where it is placed
  std::vector<uint32_t> checksum;   // by shard, as the node told it
  std::vector<ComingBytes> coming;  // by shard, to its node

  void let_go() {
    data = parities = {};
    memory.release();
  }
};
struct StagedObject {
  std::string key;
  coding::Scheme scheme;
  bool degraded_writes = false;
  std::vector<StagedSegment> segments;
  std::vector<NodeId> refused;  // nodes that had no room for one of its shards

  void let_go() {
    for (StagedSegment& segment : segments) segment.let_go();
  }
};
using StagedPtr = std::shared_ptr<StagedObject>;

// So many segments of an object that is written are in memory: one is sent while another arrives.
inline constexpr size_t kSegmentsAtOnce = 3;

// A value of `size` bytes (not 0), cut into the pool's segments under a fresh data_txid, to be
// coded as `state` says; their bytes are to come.
Result<StagedPtr> stage_object(OpsContext& ops, const Pool& pool, coding::State state,
                               std::string key, uint64_t size);

// How many segments an object has at most: a record has to list them, with what moves and folds
// add to it later.
uint64_t most_segments(const coding::Scheme& scheme);

// A segment of so many bytes (not 0), which are to come; its number is 0.
Result<StagedSegment> new_segment(const coding::Scheme& scheme, coding::State state,
                                  uint32_t length, const node::Id128& txid);

// A segment of the same shape with other bytes, which are to come, under a fresh name: nothing of
// it is on any node.
StagedSegment replacement_of(const node::Segment& segment, const node::Id128& txid);

// What the segment takes of memory until it is let go: its data and its parities.
Result<uint64_t> staged_bytes(const StagedObject& staged, size_t index);

// The segment's bytes: those that are here, or, under `map`, from its shards. Errors: those of
// read_segment, and kLost for kNotFound: too many of its shards are gone.
Task<Result<Buffer>> staged_data(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                 TimePoint deadline);

// Writes every shard of one segment, whose bytes are here, that `map`'s nodes do not have yet. Data
// shards leave before the parities are computed (ECFS partition encoding). What a node has no room
// for goes to another one that has. Errors: kNoSpace; kUnavailable if there are too few nodes;
// kStaleEpoch, kTimeout, ...: try again under a newer map.
Task<Result<void>> prepare_segment(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                   TimePoint deadline);

// Has the shards that are not `written` go to their nodes, if these are up, else to spare ones,
// though others of the segment may be on nodes that do not answer. With degraded_writes a shard for
// which there is no node is left kNoNode. Errors: kNoSpace; kTooFewNodes.
Result<void> place_missing(OpsContext& ops, const node::ClusterMap& map, StagedObject& staged,
                           size_t index);
// Writes these, once the segment's bytes are here. Errors as of prepare_segment().
Task<Result<void>> write_missing(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                 TimePoint deadline);

// Takes one of these to its node as it is at another one, `from` there: bytes of the segment are
// not needed. Errors also: kNotFound: it is not there, or is damaged.
Task<Result<void>> copy_missing(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                size_t shard, SegmentPtr from, TimePoint deadline);

// The same of all segments: what `map`'s nodes acknowledged under an older map, or longer than
// kAcknowledgedLately ago, they confirm first, and what is missing goes to spare nodes, rebuilt
// from the other shards where the segment's bytes were let go (rule 6a): after a success every
// acknowledgement is of this epoch, and recent. Errors: also kLost: too many shards are gone.
inline constexpr Duration kAcknowledgedLately = std::chrono::seconds(1);
Task<Result<void>> prepare(OpsContext& ops, MapPtr map, StagedPtr staged, TimePoint deadline);

// Deletes what was written. Only for transactions that definitely did not and never will commit.
Task<void> abandon(OpsContext& ops, StagedPtr staged);

// The segment table of the staged object.
std::vector<node::Segment> segment_table(const StagedObject& staged);

}  // namespace elastripe::objects
