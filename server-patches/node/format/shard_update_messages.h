// SHARD_UPDATE: changes of shards in place, for the baselines among the methods of updates.
// docs/node-protocol.md; docs/updates.md, "Baselines".
#pragma once

#include <string>
#include <vector>

#include "server-patches/node/format/message.h"
#include "server-patches/node/format/shard.h"

namespace elastripe::node {

enum class ShardUpdateMode : uint8_t {
  kSwap = 0,     // writes the bytes and answers old XOR new
  kAdd = 1,      // XORs the bytes to the shard's
  kLog = 2,      // keeps the bytes in the node's log of the parity shard, to be added later
  kFold = 3,     // adds what that log has
  kCollect = 4,  // keeps changes of data shards for all parities of the segment
  kTake = 5,     // answers what was collected, as changes of the parities, and forgets it
  kKeep = 6,     // writes the bytes, and keeps what their pages were: no parity has to know yet
  kFlush = 7,    // answers old XOR new of pages that are kept, and forgets them
  kHold = 8,     // holds bytes for another shard, whose node keeps its pages
  kDrop = 9,     // forgets what is held there; without extents, what was collected
  // For parities that are told what data is, and not by how much it has changed:
  kTouch = 10,      // writes the bytes, and answers what was there, but for what it has told before
  kSpeculate = 11,  // keeps bytes of a data shard, until it has all of their epoch
  kSettle = 12,     // tells how many writes an epoch has had
};

// Where the parities of a segment change, by what was collected; or a data shard has changed.
struct ShardUpdateReply {
  struct Range {
    uint32_t offset = 0;
    uint32_t length = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };
  // Ascending. kTake: the payload has their bytes for each parity; kKeep: old XOR new of these, for
  // which there was no room; kFlush: old XOR new; kTouch: the old bytes, or, where there is no
  // epoch, old XOR new.
  std::vector<Range> ranges;
  // kTouch: of the shard, and which write of it this is; kFlush: the one that has ended, and how
  // many it has had. 0: there is none.
  uint64_t epoch = 0;
  uint64_t serial = 0;
};

// Not to be sent twice: a second copy of it is done again.
struct ShardUpdateRequest {
  static constexpr Opcode kOpcode = Opcode::kShardUpdate;
  using Reply = ShardUpdateReply;
  static constexpr StatusSet kTold = {Status::kNotHere, Status::kBadPage, Status::kNoSpace,
                                      Status::kLogFull};
  struct Extent {
    uint32_t offset = 0;  // in the shard; of kCollect in a parity shard
    uint32_t length = 0;  // not 0
    uint32_t crc32c = 0;  // of its part of the payload; not of kDrop, which has none
    friend bool operator==(const Extent&, const Extent&) = default;
  };
  ShardName name;
  ShardUpdateMode mode = ShardUpdateMode::kSwap;
  // kLog: bytes above which the log is folded before it takes these; 0: the node folds it soon.
  // kCollect, kKeep, kTouch: bytes above which it answers kLogFull, and takes nothing; kFlush: as
  // many may stay.
  uint32_t log_bytes = 0;
  std::vector<Extent> extents;  // ascending and disjoint, but of kCollect and kSpeculate
  // kCollect: for each extent as many, one a parity: those of its data shard.
  std::string coefficients = {};
  // kSpeculate, kSettle: what the data shard has answered, and which one it is.
  uint8_t source = 0;
  uint64_t epoch = 0;
  uint64_t serial = 0;
  uint32_t originals = 0;   // kSpeculate: so many extents, the first, are what was there before
  uint8_t coefficient = 0;  // of the data shard
};  // payload: the bytes of the extents, one after the other

ELASTRIPE_MESSAGE(ShardUpdateRequest);
ELASTRIPE_MESSAGE(ShardUpdateReply);

}  // namespace elastripe::node
