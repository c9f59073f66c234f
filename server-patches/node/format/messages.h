// The args of every request and reply: those of shards are in shard_messages.h, those of syncs and
// walks in sync_messages.h, those of logs in log_messages.h, the others here.
// docs/node-protocol.md, one section an opcode. "Payload" says what follows the args in the frame.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server-patches/node/format/capability.h"
#include "server-patches/node/format/cluster_map.h"
#include "server-patches/node/format/log_messages.h"
#include "server-patches/node/format/message.h"
#include "server-patches/node/format/node_statistics.h"
#include "server-patches/node/format/notice_messages.h"
#include "server-patches/node/format/record.h"
#include "server-patches/node/format/shard_messages.h"
#include "server-patches/node/format/sync_messages.h"

namespace elastripe::node {

// Encoded content that one RECORD_APPLY may bring: its record fits in a frame by itself.
inline constexpr size_t kMaxContentBytes = kMaxBodyBytes - (64u << 10);

// HELLO: who are you, which map have you got. Answered in any state.
struct HelloReply {
  uint64_t clock_ms = 0;     // the node's CLOCK_BOOTTIME
  uint64_t max_version = 0;  // highest version that it has seen
  bool has_lease = false;
  // One bit a partition, for the installed map; empty without a map, or if the sender knows so many
  // set bits of it already (HeartbeatRequest).
  std::vector<uint8_t> synced;
  NodeStatistics statistics;
  CapabilitySet capabilities;  // of the node's build
  std::string version;         // of the same, for people
  // Since a decider was heard of last, on the node's clock. Nothing: never, or not since one has
  // left.
  std::optional<uint64_t> decider_age_ms = {};
  bool is_changes = false;  // the payload tells the map as changes of the one that the sender knows
};  // payload: the installed map; empty if there is none, or the sender knows it

// What a decider tells those who follow, through the node.
enum class DeciderSign : uint8_t {
  kNone = 0,    // of a follower; or of a build that says nothing, whose grants are a sign
  kHere = 1,    // a decider is at work, or begins to be, whom a majority answers
  kLeaves = 2,  // and shall be followed by another one: it decides until then
};

struct HelloRequest {
  static constexpr Opcode kOpcode = Opcode::kHello;
  using Reply = HelloReply;
  uint64_t known_map = 0;  // the hash of a map that the sender has; 0: it has none
  DeciderSign sign = DeciderSign::kNone;
  bool takes_changes = false;  // of that map
};

// HEARTBEAT: the header's epoch is the decider's; any other epoch at the node answers kStaleEpoch.
// Grants the lease until lease_stamp_ms + lease_ms on the node's clock, where the stamp is the
// clock_ms of the node's previous reply: a delayed heartbeat can not lengthen a lease.
struct HeartbeatRequest {
  static constexpr Opcode kOpcode = Opcode::kHeartbeat;
  using Reply = HelloReply;
  uint64_t lease_stamp_ms = 0;  // 0: no grant, only asks
  uint32_t lease_ms = 0;
  DeciderSign sign = DeciderSign::kNone;
  // So many bits the sender knows as set. While an epoch lasts bits are only ever set, so if the
  // node has as many, they are these.
  static constexpr uint32_t kTellSynced = UINT32_MAX;
  uint32_t known_synced = kTellSynced;
};
// The reply has no payload.

// INSTALL_MAP: payload is the map, or its changes since the one that it replaces; the header's
// epoch is that of the map which it replaces (number 0: none). Accepted if that is the installed
// map and the new number is above it, or if the new map is already installed; else kStaleEpoch: no
// decider overlooks a map that another one has made. Voids the lease unless it is the installed
// one.
struct InstallMapRequest {
  static constexpr Opcode kOpcode = Opcode::kInstallMap;
  using Reply = NoArgs;
  bool is_changes = false;  // only to nodes that have kMapChanges
};

enum class Role : uint8_t {
  kTail = 0,  // reads
  kHead = 1,  // decides
  kAny = 2,   // sync: answered even if not synced, and by sources that are no homes
};

// RECORD_READ. kOk: payload is the record (tombstones and expired records too). kBadPage: payload
// is what was stored since the copy was damaged, if anything.
struct RecordReadReply {
  uint64_t floor = 0;  // of the partition: a missing record counts as version = fence = floor
  uint64_t damaged_version = 0;  // kBadPage: the damaged copy had at most this one
  std::string log = {};          // what was asked for, encoded; empty: there is no log
  uint64_t log_age_ms = 0;       // of its oldest update, with a log
  uint32_t synced_in = 0;  // with kImage: PartitionState's; who has a higher one may know of more
  // As this copy knows; with tells_use.
  struct Use {
    bool was_used = false;  // since its value came
    uint32_t idle_s = 0;    // since the last use, or since it came
  };
  std::optional<Use> use = {};
};
// What a read is to tell of the record's update log, as it is in the moment of the record.
enum class LogWanted : uint8_t {
  kNone = 0,
  kView = 1,       // what lies over a range, with all that is not settled up to the newest of it
  kImage = 2,      // all there is, for sync
  kFold = 3,       // as kView, but nothing while another recycler has the log
  kUnsettled = 4,  // what is not settled, for a copy that lacks some of it
};
struct RecordReadRequest {
  static constexpr Opcode kOpcode = Opcode::kRecordRead;
  using Reply = RecordReadReply;
  static constexpr StatusSet kAnswers = {Status::kOk, Status::kSame, Status::kNotFound,
                                         Status::kBadPage};
  static constexpr StatusSet kTold = {Status::kNotSynced};
  Role role = Role::kTail;
  uint8_t m = 1;            // of the key's pool: the role is among the first m+1 homes
  uint64_t if_version = 0;  // kSame if the record has it; 0: always send
  std::string_view key;
  LogWanted log = LogWanted::kNone;
  uint64_t log_offset = 0, log_length = 0;  // the range of a view
  bool is_use = false;                      // by a client: the record counts as used
  bool tells_use = false;                   // the reply tells of the uses before
};

// Values are on the wire: never renumber.
enum class Condition : uint8_t {
  kAlways = 0,          // never resent: a late copy would take effect twice
  kIfVersion = 1,       // version == argument (missing record: argument == floor, but never kSet)
  kIfAbsent = 2,        // no live record
  kIfPresent = 3,       // a live record
  kIfValueVersion = 4,  // a live record with value_version == argument, else: kNotFound if absent
};
enum class Mutation : uint8_t {
  kSet = 0,     // content is the new one
  kAppend = 1,  // content.value is added to an inline value; flags and exptime stay
  kPrepend = 2,
  kIncrement = 3,  // by `delta`, wraps at 2^64; memcached's in-place rules for the length
  kDecrement = 4,  // by `delta`, stops at 0
  kTouch = 5,      // content.exptime; value_version stays
  kDelete = 6,     // tombstone
  kFence = 7,  // content unchanged, fence = the new version; a missing record becomes a tombstone
  // The same value in other shards: content.segments; all else stays, value_version too. Only with
  // kIfVersion: whoever moves shards knows which.
  kReshape = 8,
  // The same value, with the updates of its log in the shards of some segments: content.segments;
  // their shards, checksums and folded_lsn change, and nothing else. Only with kIfVersion.
  kFold = 9,
  // The same value with content.exptime, content.marks and, if that is not 0, content.cas; kNewCas:
  // the commit's own version. Only with kIfVersion: whoever marks has seen what is marked.
  kMark = 10,
};
inline constexpr uint64_t kNewCas = UINT64_MAX;

// RECORD_APPLY: the head checks and commits one change of a record (rules 5-7).
struct RecordApplyReply {
  uint64_t floor = 0;         // of the partition
  bool whole_record = false;  // the payload is a record, not a meta
  // kOk of kSet and kDelete: the encoded RecordContent that was replaced, if that was striped: the
  // proxy deletes its shards after a grace.
  std::string superseded = {};
  bool has_unnumbered = false;  // kConditionFailed: so the cas is not known before they have some
};
struct RecordApplyRequest {
  static constexpr Opcode kOpcode = Opcode::kRecordApply;
  using Reply = RecordApplyReply;
  // Every status that says what the record is.
  static constexpr StatusSet kAnswers = {
      Status::kOk,        Status::kNotFound,  Status::kConditionFailed, Status::kFenced,
      Status::kNotInline, Status::kNotNumber, Status::kTooLarge,        Status::kSuperseded};
  static constexpr StatusSet kTold = {Status::kNotSynced, Status::kNoSpace};
  uint8_t m = 1;
  Id128 attempt_id;
  uint64_t base_version = 0;  // where the transaction began, known before its first shard write
  Condition condition = Condition::kAlways;
  uint64_t condition_argument = 0;
  Mutation mutation = Mutation::kSet;
  uint64_t delta = 0;
  uint32_t inline_max_bytes = 0;  // kAppend/kPrepend answer kTooLarge above it
  bool blind = false;  // revives a key of a LOST partition: an unconditional SET of a client
  std::string_view key;
  // Not 0, with kIfVersion: made of the value with this cas. One more update: kConditionFailed.
  uint64_t made_of_cas = 0;
};
// Request payload: encoded RecordContent (kSet, kAppend, kPrepend, kTouch, kReshape, kFold,
// kMark; else empty).
// Payload of the reply: of kOk the new RecordMeta for kSet and kDelete (the proxy has the content),
// the whole new record for the other mutations and for an attempt that had committed before; of the
// others the current record, or nothing if there is none.

// RECORD_STORE: payload is a record; stored if its version is greater than what is there.
// kFenced: the key is synced here, has no record, and the version is not above the floor. Either a
// tombstone above it was collected, or the floor rose past a commit in flight: the chain goes on
// after the head has given the record a version above the floor (kFence).
struct RecordStoreReply {
  // What the node holds now: >= the record's. 0: the key's record counts as damaged.
  uint64_t version = 0;
};
struct RecordStoreRequest {
  static constexpr Opcode kOpcode = Opcode::kRecordStore;
  using Reply = RecordStoreReply;
  static constexpr StatusSet kTold = {Status::kSame, Status::kNoSpace};
  uint8_t m = 1;
  bool sync = false;    // by sync, not by a commit: any home of the partition takes it
  bool revive = false;  // by a commit: its head knows the key, so in a LOST partition it is synced
  // Not 0: there is no payload. Every copy that may have been the newest is damaged, and none had a
  // higher version than this. The node is to know as little, unless the key is synced there, or it
  // has a record of that version. kSame: it does already.
  uint64_t lost_version = 0;
  std::string_view key;
  // By sync: the newest image of the record's update log, encoded; empty: it has none. A home that
  // is synced leaves it alone.
  std::string_view log = {};
};

ELASTRIPE_MESSAGE(HelloRequest);
ELASTRIPE_MESSAGE(HelloReply);
ELASTRIPE_MESSAGE(HeartbeatRequest);
ELASTRIPE_MESSAGE(InstallMapRequest);
ELASTRIPE_MESSAGE(RecordReadRequest);
ELASTRIPE_MESSAGE(RecordReadReply);
ELASTRIPE_MESSAGE(RecordApplyRequest);
ELASTRIPE_MESSAGE(RecordApplyReply);
ELASTRIPE_MESSAGE(RecordStoreRequest);
ELASTRIPE_MESSAGE(RecordStoreReply);

}  // namespace elastripe::node
