// The args of requests and replies about shards. docs/node-protocol.md, one section an opcode.
#pragma once

#include <string>
#include <vector>

#include "coding/fingerprint.h"
#include "server-patches/node/format/message.h"
#include "server-patches/node/format/shard.h"

namespace elastripe::node {

// SHARD_WRITE: payload is the shard's bytes. A second copy with the same bytes answers kOk.
struct ShardWriteReply {
  uint32_t crc32c = 0;  // of the payload
};
struct ShardWriteRequest {
  static constexpr Opcode kOpcode = Opcode::kShardWrite;
  using Reply = ShardWriteReply;
  static constexpr StatusSet kTold = {Status::kNoSpace};
  ShardHeader header;
};

// A parity shard has a block for each codeword: at most k' stripes, or fewer rows.
inline constexpr size_t kMaxShardBlocks = coding::kMaxDataNodes;

// SHARD_BUILD: a parity shard of the next generation, out of the current one on the same node and
// of deltas (execution `delta` of a transition). A second copy answers kOk, like SHARD_WRITE's.
// kNotHere and kBadPage are of the source.
struct ShardBuildRequest {
  static constexpr Opcode kOpcode = Opcode::kShardBuild;
  using Reply = ShardWriteReply;
  static constexpr StatusSet kTold = {Status::kNotHere, Status::kBadPage};
  struct Block {                   // of the new shard: the XOR of these
    std::vector<uint16_t> old;     // blocks of the source
    std::vector<uint16_t> deltas;  // blocks of the payload
    friend bool operator==(const Block&, const Block&) = default;
  };
  ShardName source;
  ShardHeader header;  // of the new shard
  uint32_t block_bytes = 0;
  std::vector<Block> blocks;
};  // payload: the deltas, block_bytes each

// SHARD_PATCH: a shard out of an older one on the same node, of which some bytes are to be others.
// The older one stays as it is. A second copy answers the same. kNotHere and kBadPage are of the
// source; its pages without an extent are not looked at, and go over as they are, bad ones too.
enum class ShardPatchMode : uint8_t {
  kWrite = 0,  // the payload's bytes take the place of the source's
  kAdd = 1,    // they are XORed to them
};
struct ShardPatchRequest {
  static constexpr Opcode kOpcode = Opcode::kShardPatch;
  using Reply = NoArgs;
  static constexpr StatusSet kTold = {Status::kNotHere, Status::kBadPage, Status::kNoSpace,
                                      Status::kExists};
  struct Extent {
    uint32_t offset = 0;  // in the shard
    uint32_t length = 0;  // not 0
    uint32_t crc32c = 0;  // of its part of the payload
    friend bool operator==(const Extent&, const Extent&) = default;
  };
  ShardName source;
  ShardHeader header;  // of the new shard, which is as long as the source
  ShardPatchMode mode = ShardPatchMode::kWrite;
  std::vector<Extent> extents;  // ascending; they do not overlap
};  // payload: the bytes of the extents, one after the other. kOk to kWrite: so is the XOR of old
    // and new ones; to kAdd: none

struct ShardReadRequest {
  static constexpr Opcode kOpcode = Opcode::kShardRead;
  using Reply = NoArgs;
  static constexpr StatusSet kTold = {Status::kNotHere, Status::kBadPage, Status::kNoLease};
  ShardName name;
  uint32_t offset = 0;
  uint32_t length = 0;  // 0: to the end
};  // kOk: payload is the bytes

// SHARD_CONFIRM: are these shards here, intact? (re-prepare, rule 6a)
struct ShardConfirmReply {
  struct Entry {
    bool present = false;
    uint32_t crc32c = 0;  // of the payload
    uint32_t payload_bytes = 0;
  };
  // In the order asked: of the first names, at least one, until enough bytes were checked.
  std::vector<Entry> entries;
};
struct ShardConfirmRequest {
  static constexpr Opcode kOpcode = Opcode::kShardConfirm;
  using Reply = ShardConfirmReply;
  std::vector<ShardName> names;
  bool check_pages = true;  // false: only whether they are here, without a look at their bytes
};

// SHARD_FINGERPRINT: what the blocks of these shards come to, under one seed
// (coding/fingerprint.h), so that parity can be compared with data. Their pages are looked at, too.
enum class ShardHealth : uint8_t {
  kNotHere = 0,
  kBad = 1,  // a page's checksum does not match, or it is not made of such blocks
  kIntact = 2,
};
struct BlockFingerprint {
  uint32_t crc32c = 0;  // of the block
  coding::Fingerprint fingerprint = {};
  friend bool operator==(const BlockFingerprint&, const BlockFingerprint&) = default;
};
struct ShardFingerprintReply {
  struct Entry {
    ShardHealth health = ShardHealth::kNotHere;
    uint8_t blocks = 0;  // of an intact one: at most kMaxShardBlocks
  };
  std::vector<Entry> entries;  // as asked, of the first names: the caller asks for the others again
  std::vector<BlockFingerprint> blocks;  // of all entries, one after the other
};
struct ShardFingerprintRequest {
  static constexpr Opcode kOpcode = Opcode::kShardFingerprint;
  using Reply = ShardFingerprintReply;
  static constexpr StatusSet kTold = {Status::kNoLease};
  struct Shard {
    ShardName name;
    uint32_t block_bytes = 0;
  };
  coding::FingerprintSeed seed;
  std::vector<Shard> shards;  // at most kMaxListEntries
};

// SHARD_DELETE: at once, or by the node's own clock. Only names that no record can ever refer to
// again (rules 7 and 8).
struct ShardDeleteReply {
  uint32_t deleted = 0;  // or will be: how many of them are here
};
struct ShardDeleteRequest {
  static constexpr Opcode kOpcode = Opcode::kShardDelete;
  using Reply = ShardDeleteReply;
  std::vector<ShardName> names;  // at most kMaxListEntries
  uint32_t after_ms = 0;         // at most kMaxDeletionDelay_ms
};
inline constexpr uint32_t kMaxDeletionDelay_ms = 24 * 3600 * 1000;

struct ScannedShard {
  ShardName name;
  std::string key;
  uint64_t age_ms = 0;
  uint32_t payload_bytes = 0;
};
struct ShardScanReply {
  uint64_t cursor = 0;  // 0: done
  std::vector<ScannedShard> shards;
};
struct ShardScanRequest {
  static constexpr Opcode kOpcode = Opcode::kShardScan;
  using Reply = ShardScanReply;
  uint64_t cursor = 0;
  uint32_t max_entries = 0;
  uint32_t min_age_ms = 0;               // skips younger ones
  std::vector<uint8_t> partitions = {};  // one bit a partition, of the objects' keys; empty: all
};

ELASTRIPE_MESSAGE(ShardWriteRequest);
ELASTRIPE_MESSAGE(ShardWriteReply);
ELASTRIPE_MESSAGE(ShardBuildRequest);
ELASTRIPE_MESSAGE(ShardPatchRequest);
ELASTRIPE_MESSAGE(ShardReadRequest);
ELASTRIPE_MESSAGE(ShardConfirmRequest);
ELASTRIPE_MESSAGE(ShardConfirmReply);
ELASTRIPE_MESSAGE(ShardFingerprintRequest);
ELASTRIPE_MESSAGE(ShardFingerprintReply);
ELASTRIPE_MESSAGE(ShardDeleteRequest);
ELASTRIPE_MESSAGE(ShardDeleteReply);
ELASTRIPE_MESSAGE(ShardScanRequest);
ELASTRIPE_MESSAGE(ShardScanReply);

}  // namespace elastripe::node
