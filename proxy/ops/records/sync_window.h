// A window of the sweep: a few partitions that are synced together. Their versions are read from
// all who have copies, and only what a home lacks is confirmed or sent there.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "proxy/ops/context.h"

namespace elastripe::records {

// Keys of all partitions of a window, by estimate: bounds its memory to some tens of MB.
inline constexpr size_t kWindowKeys = size_t{1} << 18;

// What all windows of one sweep know.
struct Sweep {
  OpsContext& ops;
  MapPtr map;
  const bool* stop;                 // may be null
  std::set<NodeId> full = {};       // homes without room: they are asked no more
  std::set<uint32_t> refused = {};  // partitions that wait for room
  Result<void> failure = {};        // the first error that was not about room

  bool is_stopped() const { return stop != nullptr && *stop; }
  void failed(const Error& error) {
    if (failure) failure = fail(error);
  }
};

class SyncWindow {
 public:
  // All LOST, or none.
  SyncWindow(Sweep& sweep, std::vector<uint32_t> partitions);

  // Marks what all homes have; the rest is in the sweep's failure and refusals. False: nothing was
  // done, as there are too many keys for one window; of a single partition there never are.
  Task<bool> run();

 private:
  // What is known of a key.
  struct Copies {
    node::CommitName newest;    // version 0: nobody has it, but for forgotten copies
    NodeId holder = 0;          // of the newest
    uint16_t homes = 0;         // bit i: homes[i] of the partition has the newest
    uint16_t forgotten_at = 0;  // bit i: it has a copy that may be confirmed
    // Some copy is damaged, or has an update log: the key is synced by itself.
    bool alone = false;
  };
  using Entry = std::pair<const std::string, Copies>;
  using Slice = std::vector<Entry*>;

  Task<void> scan_all();
  Task<Result<void>> scan(NodeId from, std::vector<uint8_t> bits);
  void note(NodeId from, node::ScannedVersion scanned);

  Task<bool> bring_all();
  Task<void> bring(Slice slice);
  // Runs `make(node, slice)` for all at once; a node that fails is given up.
  template <class Make>
  Task<void> at_each(std::map<NodeId, Slice> slices, Make make);
  Task<Result<void>> confirm_at(NodeId home, Slice slice);
  Task<Result<void>> send_from(NodeId holder, Slice slice);
  Task<Result<void>> send(Entry* entry, Buffer record);
  Task<Result<void>> store(Entry* entry, NodeId home, Buffer record);
  Task<Result<void>> sync_alone(Entry* entry);

  Task<void> mark();
  Task<Result<void>> mark_partition(uint32_t number);

  // A call that a lost frame does not end: sync may say everything again.
  template <class Request>
  Task<Result<Answer<Request>>> ask_again(NodeId to, Request message);
  bool may_try_again(const Error& error, int tried) const;

  uint32_t partition_of(const Entry& entry) const;
  // 0 if it is none.
  uint16_t home_bit(const node::Partition& partition, NodeId home) const;
  std::vector<NodeId> homes_lacking(const Entry& entry);
  Slice lacking(const Slice& slice);
  // The node does not answer: its partitions stay as they are, and the others go on.
  void give_up(NodeId node, const Error& error);

  Sweep& sweep_;
  OpsContext& ops_;
  const MapPtr map_;
  const std::vector<uint32_t> partitions_;
  const bool lost_;
  std::unordered_map<std::string, Copies> keys_;
  std::map<uint32_t, uint64_t> floors_;
  std::set<uint32_t> failed_;  // partitions
  bool too_large_ = false;
};

}  // namespace elastripe::records
