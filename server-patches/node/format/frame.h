// The header of a node frame: what proxies, nodes, the simulator and the fuzzers share.
// Documented in docs/node-protocol.md; the bodies are in messages.h.
//
//   frame = header (64 bytes) | args (args_bytes) | payload (body_bytes - args_bytes)
//
// The args are the opcode's message; the payload is raw bytes of an object or shard, which is never
// copied into a message. Numbers are little-endian. Frames pipeline; replies may come out of order
// and are matched by `opaque`.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>

#include "server-patches/node/format/wire.h"

namespace elastripe::node {

inline constexpr uint8_t kRequestMagic = 0xE5;  // memcached uses 0x80/0x81 and printable ASCII
inline constexpr uint8_t kReplyMagic = 0xE6;
// It is the headers'. All else grows without it: capability.h.
inline constexpr uint8_t kFormatVersion = 3;
inline constexpr size_t kHeaderBytes = 64;
// Above the largest shard (a 4 MiB segment under rep) with room for the args.
inline constexpr uint32_t kMaxBodyBytes = 8u << 20;

using NodeId = uint16_t;  // index of the node in the cluster's configuration; never reused

// Values are on the wire: never renumber.
enum class Opcode : uint8_t {
  // Control: served in any state, without epoch check.
  kHello = 1,
  kHeartbeat = 2,
  kInstallMap = 3,
  kNotices = 4,
  // Records.
  kRecordRead = 10,
  kRecordApply = 11,
  kRecordStore = 12,
  kRecordScan = 13,
  kMarkSynced = 14,
  kRaiseFloor = 15,
  kDropTombstones = 16,
  kRecordConfirm = 17,
  kRecordFetch = 18,
  // Shards.
  kShardWrite = 20,
  kShardRead = 21,
  kShardConfirm = 22,
  kShardDelete = 23,
  kShardScan = 24,
  kShardBuild = 25,
  kShardFingerprint = 26,
  kShardPatch = 27,
  kShardUpdate = 28,
  // Update logs.
  kLogAppend = 30,
  kLogStore = 31,
  kLogSettle = 32,
  kLogScan = 33,
  kLogCancel = 34,
};

// Every opcode, in the order of their values.
struct OpcodeName {
  Opcode opcode;
  const char* name;
};
inline constexpr std::array kOpcodes = {
    OpcodeName{Opcode::kHello, "HELLO"},
    OpcodeName{Opcode::kHeartbeat, "HEARTBEAT"},
    OpcodeName{Opcode::kInstallMap, "INSTALL_MAP"},
    OpcodeName{Opcode::kNotices, "NOTICES"},
    OpcodeName{Opcode::kRecordRead, "RECORD_READ"},
    OpcodeName{Opcode::kRecordApply, "RECORD_APPLY"},
    OpcodeName{Opcode::kRecordStore, "RECORD_STORE"},
    OpcodeName{Opcode::kRecordScan, "RECORD_SCAN"},
    OpcodeName{Opcode::kMarkSynced, "MARK_SYNCED"},
    OpcodeName{Opcode::kRaiseFloor, "RAISE_FLOOR"},
    OpcodeName{Opcode::kDropTombstones, "DROP_TOMBSTONES"},
    OpcodeName{Opcode::kRecordConfirm, "RECORD_CONFIRM"},
    OpcodeName{Opcode::kRecordFetch, "RECORD_FETCH"},
    OpcodeName{Opcode::kShardWrite, "SHARD_WRITE"},
    OpcodeName{Opcode::kShardRead, "SHARD_READ"},
    OpcodeName{Opcode::kShardConfirm, "SHARD_CONFIRM"},
    OpcodeName{Opcode::kShardDelete, "SHARD_DELETE"},
    OpcodeName{Opcode::kShardScan, "SHARD_SCAN"},
    OpcodeName{Opcode::kShardBuild, "SHARD_BUILD"},
    OpcodeName{Opcode::kShardFingerprint, "SHARD_FINGERPRINT"},
    OpcodeName{Opcode::kShardPatch, "SHARD_PATCH"},
    OpcodeName{Opcode::kShardUpdate, "SHARD_UPDATE"},
    OpcodeName{Opcode::kLogAppend, "LOG_APPEND"},
    OpcodeName{Opcode::kLogStore, "LOG_STORE"},
    OpcodeName{Opcode::kLogSettle, "LOG_SETTLE"},
    OpcodeName{Opcode::kLogScan, "LOG_SCAN"},
    OpcodeName{Opcode::kLogCancel, "LOG_CANCEL"},
};
static_assert(std::ranges::is_sorted(kOpcodes, std::ranges::less_equal(), &OpcodeName::opcode));
// Its place in kOpcodes, for arrays by opcode; kOpcodes.size() of a number that is none.
size_t index_of(uint8_t opcode);
inline size_t index_of(Opcode opcode) { return index_of(static_cast<uint8_t>(opcode)); }

const char* name(Opcode opcode);
bool is_known(uint8_t opcode);
bool is_control(Opcode opcode);  // opcodes below 10

// Values are on the wire: never renumber. Every status but kOk carries a one-line reason as
// payload, except where messages.h says that it carries a record.
enum class Status : uint8_t {
  kOk = 0,
  kSame = 1,             // RECORD_READ: the record still has if_version
  kNotFound = 2,         // no record of this key (the reply carries the floor)
  kConditionFailed = 3,  // RECORD_APPLY: the condition does not hold; carries the current record
  kFenced = 4,       // RECORD_APPLY: base_version < fence (or floor); carries the record, if any
  kNotSynced = 5,    // neither the key nor its partition is synced in this epoch
  kLost = 6,         // the partition lost all its synced homes
  kStaleEpoch = 7,   // epoch, cluster or incarnation mismatch, or a lower map; carries the epoch
  kNoLease = 8,      // the node's lease has run out, or was never granted in this epoch
  kJoining = 9,      // no map names this incarnation yet
  kNotHome = 10,     // the node does not have the role that the request needs
  kNoSpace = 11,     // clean refusal; what was stored is intact
  kNotHere = 12,     // no such shard: an erasure
  kBadPage = 13,     // a page's checksum does not match: an erasure
  kExists = 14,      // SHARD_WRITE and the like: the name is taken by other bytes
  kNotInline = 15,   // the mutation needs an inline record, this one is striped
  kNotNumber = 16,   // increment or decrement of a value that is no decimal number
  kTooLarge = 17,    // the mutated value would exceed the request's inline limit
  kInvalid = 18,     // malformed request
  kSuperseded = 19,  // RECORD_APPLY: attempt_id committed, but later commits followed
  // Update logs.
  kOtherValue = 20,  // the record has another value than the update is for; carries the record
  kOutOfRange = 21,  // the update is beyond the end of the value
  kLogFull = 22,     // there is no room until some updates are folded
  kRenumber = 23,    // no number is left behind the record's version: a commit gives it another
  kForgotten = 24,   // nobody knows any more whether the update was made
};
inline constexpr size_t kStatuses = 25;  // values from 0 on, without a gap
const char* name(Status status);         // "UNKNOWN" of one that a newer node has

class StatusSet {
 public:
  constexpr StatusSet(std::initializer_list<Status> statuses) {
    for (const Status status : statuses) bits_ |= 1u << static_cast<unsigned>(status);
  }
  constexpr bool has(Status status) const {
    const auto number = static_cast<unsigned>(status);
    return number < kStatuses && (bits_ >> number & 1) != 0;
  }

 private:
  uint32_t bits_ = 0;
};

// (number, decider, map hash): a node accepts one map per number.
struct Epoch {
  uint32_t number = 0;   // 0: no map
  uint32_t decider = 0;  // random id of the proxy that made the map
  uint64_t map_hash = 0;

  friend bool operator==(const Epoch&, const Epoch&) = default;
};
std::string to_string(const Epoch& epoch);

struct RequestHeader {
  Opcode opcode = Opcode::kHello;
  uint32_t args_bytes = 0;
  uint32_t body_bytes = 0;
  uint64_t opaque = 0;
  uint64_t cluster_id = 0;
  Epoch epoch;
  uint64_t incarnation = 0;  // of the node that the sender means; 0 for control frames
  uint64_t now_ms = 0;       // sender's unix time: head and tail agree on expiry

  size_t payload_bytes() const { return body_bytes - args_bytes; }
};

struct ReplyHeader {
  Opcode opcode = Opcode::kHello;
  Status status = Status::kOk;
  uint32_t args_bytes = 0;
  uint32_t body_bytes = 0;
  uint64_t opaque = 0;
  uint64_t incarnation = 0;  // of the answering node process
  Epoch epoch;               // of the node's installed map
  uint64_t free_bytes = 0;   // what the node can still take before its soft limit

  size_t payload_bytes() const { return body_bytes - args_bytes; }
};

void encode(const RequestHeader& header, std::span<std::byte, kHeaderBytes> out);
void encode(const ReplyHeader& header, std::span<std::byte, kHeaderBytes> out);
// Refuses a wrong magic or version and sizes out of bounds. An opcode or status that is not known
// stays as it is, and reserved bytes are not looked at: a newer peer may use them.
Decoded<RequestHeader> decode_request_header(std::span<const std::byte, kHeaderBytes> in);
Decoded<ReplyHeader> decode_reply_header(std::span<const std::byte, kHeaderBytes> in);

}  // namespace elastripe::node
