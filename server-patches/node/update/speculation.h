// Parities that are told what data shards have now, and not by how much that is other than before
// (PARIX). For methods of updates that change shards in place (docs/updates.md, "Baselines").
//
// An epoch of a data shard begins with its first write that is told so, and ends when its node is
// asked to flush. What was there before the epoch is told once, with the first write of a place.
// Both classes belong to whoever holds the latch of their shard.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "server-patches/node/format/shard_update_messages.h"
#include "server-patches/node/update/log_pool.h"

namespace elastripe::node {

// At a data shard: what its parities know as it was before this epoch.
class TouchedLines {
 public:
  static constexpr uint32_t kLineBytes = kPageBytes / 64;

  uint64_t epoch = 0;
  uint64_t writes = 0;
  size_t bytes = 0;  // of these writes

  // Lines that have bytes of this range and were not touched yet, as ranges of a shard that is so
  // long. From now on they are.
  void touch(size_t offset, size_t size, size_t shard_bytes,
             std::vector<ShardUpdateReply::Range>& fresh);

 private:
  std::map<size_t, uint64_t> lines_;  // by page, from the lowest bit on
};

// At a parity shard.
class SpeculativeLog {
 public:
  struct Piece {
    uint64_t serial = 0;  // of the write; 0: what was there before all
    uint32_t offset = 0;
    LogBytes bytes = {};
  };
  struct Epoch {
    uint8_t coefficient = 0;  // of the data shard
    std::vector<Piece> pieces = {};
    uint64_t writes = 0;    // that have come
    uint64_t expected = 0;  // as many as there are; 0: nobody has told yet
    bool is_complete() const { return expected != 0 && writes == expected; }
  };
  using Name = std::pair<uint8_t, uint64_t>;  // of an epoch: its data shard, and its number

  Epoch& at(uint8_t source, uint64_t epoch) { return epochs_[{source, epoch}]; }
  const std::map<Name, Epoch>& epochs() const { return epochs_; }
  void forget(const Name& name) { epochs_.erase(name); }
  bool empty() const { return epochs_.empty(); }

 private:
  std::map<Name, Epoch> epochs_;
};

// By how much the parity changes by an epoch that is complete: bytes that lie together, ascending.
struct ParityChange {
  size_t offset = 0;
  std::vector<std::byte> bytes;
};
std::vector<ParityChange> changes_of(const SpeculativeLog::Epoch& epoch);

}  // namespace elastripe::node
