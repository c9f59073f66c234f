// RecordWalk: shows every record to a job, tail by tail.
//
// A partition counts as walked only when its tail had it synced from the beginning. Until then, or
// when the map changes under the walk, it is walked again: a record may be shown several times.
#pragma once

#include <string>
#include <vector>

#include "proxy/ops/records/record_scan.h"

namespace elastripe::jobs {

// On one thread, that of `ops`.
class RecordWalk {
 public:
  // The job.
  class Visitor {
   public:
    // Before the records of a page are met, for a job that has to ask nodes about them. Pages of
    // several tails are under way at a time. Errors as of meet().
    virtual Task<Result<void>> look_at(MapPtr map, const node::RecordScanReply& page) {
      (void)map, (void)page;
      co_return Result<void>{};
    }
    // A record as the scan has it; one that did not fit in the page has to be read. An error ends
    // the walk of this tail, which is tried again; kCancelled ends the whole walk.
    virtual Task<Result<void>> meet(MapPtr map, size_t partition, node::ScannedRecord scanned) = 0;
    // This one is walked, for the first time or again.
    virtual void partition_begins(size_t partition) = 0;
    virtual void partition_walked(size_t partition) = 0;
    // Why the walk waits; empty: it goes on.
    virtual void walk_waits(std::string reason) = 0;
    // False: the job needs no more records.
    virtual bool wants_more() const = 0;

   protected:
    ~Visitor() = default;
  };

  static constexpr size_t kTailsAtOnce = 8;
  // How long nothing may get on, and how often it is tried again until then.
  static constexpr Duration kStalledAfter = std::chrono::seconds(60);
  static constexpr Duration kPause = std::chrono::milliseconds(100);

  // Records whose keys begin with `prefix`, without their values, in pages of `page_bytes`.
  RecordWalk(OpsContext& ops, std::string prefix, uint32_t page_bytes, Visitor& visitor)
      : ops_(ops), prefix_(std::move(prefix)), page_bytes_(page_bytes), visitor_(visitor) {}

  // Once; ends when every partition is walked, or the visitor wants no more. Fails when nothing got
  // on for kStalledAfter.
  Task<Result<void>> run();
  // The visitor met something new, or made room for it.
  void got_on() { got_on_ = ops_.clock.now(); }

  uint64_t partitions() const { return to_walk_.size(); }
  uint64_t partitions_done() const { return done_; }

 private:
  Task<Result<void>> scan_tails(const MapPtr& map);
  Task<Result<void>> scan_tail(MapPtr map, NodeId tail, std::vector<uint8_t> partitions);
  Task<Result<bool>> show(MapPtr map, node::RecordScanReply& page);
  void mark_walked(const std::vector<uint8_t>& partitions, const std::vector<uint32_t>& unsynced);

  OpsContext& ops_;
  const std::string prefix_;
  const uint32_t page_bytes_;
  Visitor& visitor_;
  std::vector<bool> to_walk_;  // by partition
  uint64_t done_ = 0;          // partitions
  TimePoint got_on_;
  Semaphore tails_{kTailsAtOnce};
};

}  // namespace elastripe::jobs
