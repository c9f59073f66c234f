// Reclaim: collects what nothing refers to any more: shards of abandoned and superseded writes,
// expired records, tombstones (rules 7-9). A round only ever starts a resolution; what it removes
// was fenced, or is covered by the partition's floor, first.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "proxy/ops/context.h"

namespace elastripe {

// An upload counts as abandoned when none of its shards is younger than so many of its idle limits.
// A session closes a client only when one segment takes it the whole limit; beside that an upload
// may wait as long for memory that other clients hold until they are closed, and write a segment
// again when the map changes. None of that is its client's fault.
inline constexpr int kAbandonedAfter = 3;

// What one round did.
struct ReclaimReport {
  uint64_t shards_deleted = 0;
  uint64_t keys_fenced = 0;
  uint64_t chains_completed = 0;  // commits that a proxy left half-way, pushed to the tail
  uint64_t records_expired = 0;
  uint64_t tombstones_dropped = 0;
  friend bool operator==(const ReclaimReport&, const ReclaimReport&) = default;
};

// One for each decider, on its thread. Remembers which tombstones it has seen, so that their age
// needs no place on the nodes.
class Reclaimer {
 public:
  explicit Reclaimer(OpsContext& ops) : ops_(ops) {}

  // One round under `map`; takes read_grace if it finds shards. `synced`, one entry a partition:
  // all its homes have it as synced in this epoch; others are left alone. What a node does not
  // answer for is left to the next round. Errors: kStaleEpoch: the map is over; kCancelled:
  // shutdown.
  Task<Result<ReclaimReport>> round(MapPtr map, std::vector<bool> synced);

 private:
  struct Seen {
    uint64_t version = 0;
    TimePoint first_seen;
    bool seen_in_round = false;
  };
  using Tombstones = std::vector<node::DropTombstonesRequest::Entry>;
  using TombstonesByPartition = std::unordered_map<uint32_t, Tombstones>;

  Task<Result<void>> reclaim_shards(MapPtr map, const std::vector<bool>& synced,
                                    ReclaimReport& report);
  Task<Result<void>> expire_records(MapPtr map, const std::vector<bool>& synced,
                                    ReclaimReport& report);
  Task<Result<void>> collect_tombstones(MapPtr map, const std::vector<bool>& synced,
                                        ReclaimReport& report);
  void remember_tombstone(const std::string& key, uint64_t version);
  Task<Result<void>> drop_tombstones(MapPtr map, uint32_t partition, Tombstones tombstones,
                                     ReclaimReport& report);

  OpsContext& ops_;
  std::unordered_map<std::string, Seen> tombstones_;
};

}  // namespace elastripe
