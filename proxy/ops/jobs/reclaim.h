// Reclaim: collects what nothing refers to any more: expired objects, tombstones, and the shards of
// abandoned and superseded writes (rules 7-9). A round only ever starts a resolution; what it
// removes was fenced, or is covered by the partition's floor, first.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "proxy/ops/jobs/expiry_clock.h"
#include "proxy/ops/jobs/orphans.h"

namespace elastripe::jobs {

// One for each decider, on its thread. It remembers how far it is, nothing else: the nodes keep the
// age of tombstones and of shards. `expiry_clock` outlives it.
class Reclaimer {
 public:
  Reclaimer(OpsContext& ops, ExpiryClock& expiry_clock)
      : ops_(ops), expiry_clock_(expiry_clock), orphans_(ops) {}

  // One round under `map`: all records, and of the shards as much as time allows; the next goes on
  // there. `synced`, one entry a partition: all its homes have it as synced in this epoch; others
  // are left alone. What a node does not answer for is left to the next round. Errors: kStaleEpoch:
  // the map is over; kCancelled: shutdown.
  Task<Result<ReclaimReport>> round(MapPtr map, std::vector<bool> synced);

 private:
  // Walks that a round could not finish go on where they were, as long as the node lives.
  struct Walk {
    uint64_t incarnation = 0;
    uint64_t cursor = 0;
  };
  // What DROP_TOMBSTONES shall remove of one partition.
  struct Dead {
    std::vector<node::DropTombstonesRequest::Entry> records;
    uint64_t expired = 0;  // so many of them are no tombstones
  };
  // The work at one tail.
  struct TailWork {
    MapPtr map;
    std::optional<uint32_t> expired_until_s;
    bool drops = false;                  // what is dead, too
    std::map<uint32_t, Dead> dead = {};  // by partition
    size_t dead_records = 0;
    std::vector<std::pair<std::string, uint64_t>> expired = {};  // striped, with their versions
    ReclaimReport report = {};
  };

  Task<Result<void>> collect_records(MapPtr map, const std::vector<bool>& synced,
                                     ReclaimReport& report);
  Task<Result<void>> collect_at(NodeId tail, std::vector<uint8_t> partitions, TailWork& work);
  Task<Result<bool>> collect_page(node::RecordScanReply& page, Walk& walk, TailWork& work);
  Task<Result<void>> sort_out(node::ScannedRecord scanned, TailWork& work);
  Task<Result<void>> expire_striped(TailWork& work);
  Task<Result<void>> drop_dead(TailWork& work);
  Task<Result<void>> drop_of_partition(MapPtr map, uint32_t partition,
                                       std::vector<node::DropTombstonesRequest::Entry> records);

  OpsContext& ops_;
  ExpiryClock& expiry_clock_;
  OrphanSweep orphans_;
  std::map<NodeId, Walk> walks_;  // of tails
  TimePoint drop_after_;
};

}  // namespace elastripe::jobs
