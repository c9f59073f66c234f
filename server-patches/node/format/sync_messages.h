// What syncs, repairs and reclaims ask for: walks over many records, what of them is held, what is
// synced by now, and what may go. docs/node-protocol.md, one section an opcode.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server-patches/node/format/message.h"
#include "server-patches/node/format/record.h"

namespace elastripe::node {

// RECORD_SCAN: all records of the chosen partitions, a slice a frame; answered by sources and
// homes, synced or not. Of several restrictions to a kind any suffices.
struct ScannedRecord {
  std::string key;
  std::string record;  // encoded; empty: it did not fit, RECORD_READ tells
};
// The last commit of a record: copies of one commit have the same bytes.
struct CommitName {
  uint64_t version = 0;
  Id128 attempt_id;
  friend bool operator==(const CommitName&, const CommitName&) = default;
};
struct ScannedVersion {
  std::string key;
  CommitName commit;
  bool forgotten = false;  // of an older tenure; a home tells it as long as RECORD_CONFIRM helps
  bool damaged = false;    // the copy is, or was: all others have to be looked at
  bool has_log = false;    // of updates, which no version tells
};
struct RecordScanReply {
  uint64_t cursor = 0;  // 0: done
  std::vector<ScannedRecord> records;
  std::vector<std::pair<uint32_t, uint64_t>> floors;  // (partition, floor), sent with cursor 0
  // Answering cursor 0: the chosen partitions, but for LOST ones, that the node has not synced, so
  // that it may lack records of them. (Within an epoch, synced is for good.)
  std::vector<uint32_t> unsynced = {};
  std::vector<ScannedVersion> versions = {};  // in place of `records`, with versions_only
};
struct RecordScanRequest {
  static constexpr Opcode kOpcode = Opcode::kRecordScan;
  using Reply = RecordScanReply;
  uint64_t cursor = 0;  // 0 starts; the reply's cursor goes on
  uint32_t max_bytes = 0;
  bool tombstones_only = false;
  bool expired_only = false;
  bool striped_only = false;
  bool without_values = false;      // inline records come without their bytes (size 0)
  uint32_t min_age_s = 0;           // of what DROP_TOMBSTONES removes: younger ones are skipped
  bool versions_only = false;       // only what each record's last commit was, for sync
  std::string prefix = {};          // of keys; empty: all
  std::vector<uint8_t> partitions;  // one bit a partition
};

// RECORD_CONFIRM: these are the newest commits of their keys, as a source has them. A home that
// holds just such a copy from an older tenure takes it as current: nothing needs to be sent.
struct RecordConfirmReply {
  std::vector<uint8_t> held;  // one bit an entry: the home has that commit, or a newer one
};
struct RecordConfirmRequest {
  static constexpr Opcode kOpcode = Opcode::kRecordConfirm;
  using Reply = RecordConfirmReply;
  struct Entry {
    std::string key;
    CommitName commit;
  };
  std::vector<Entry> records;  // at most kMaxListEntries
};

// RECORD_FETCH: RECORD_READ in role any, of many keys.
struct RecordFetchReply {
  std::vector<uint32_t> sizes;  // of the records of the first keys, in order; 0: there is none
};  // payload: these records, one after the other
struct RecordFetchRequest {
  static constexpr Opcode kOpcode = Opcode::kRecordFetch;
  using Reply = RecordFetchReply;
  uint32_t max_bytes = 0;         // of the reply; a first record comes whatever its size
  std::vector<std::string> keys;  // at most kMaxListEntries
};

// MARK_SYNCED: every home of the current epoch stores all of the key, or of the partition.
// A node that is no home of the partition then forgets what it has of it.
struct MarkSyncedRequest {
  static constexpr Opcode kOpcode = Opcode::kMarkSynced;
  using Reply = NoArgs;
  uint32_t partition = 0;
  std::string key;     // empty: the whole partition
  uint64_t floor = 0;  // raises the partition's floor
};

// RAISE_FLOOR: at every home before any DROP_TOMBSTONES of versions up to it (rule 9).
struct RaiseFloorRequest {
  static constexpr Opcode kOpcode = Opcode::kRaiseFloor;
  using Reply = NoArgs;
  uint32_t partition = 0;
  uint64_t floor = 0;
};
// DROP_TOMBSTONES: removes the tombstones that still are these versions, none above the floor: a
// key that was created and deleted again meanwhile keeps its newer one. An inline record that has
// expired is as good as a tombstone.
struct DropTombstonesRequest {
  static constexpr Opcode kOpcode = Opcode::kDropTombstones;
  using Reply = NoArgs;
  struct Entry {
    std::string key;
    uint64_t version = 0;
  };
  uint32_t partition = 0;
  std::vector<Entry> tombstones;  // at most kMaxListEntries
};

ELASTRIPE_MESSAGE(RecordScanRequest);
ELASTRIPE_MESSAGE(RecordScanReply);
ELASTRIPE_MESSAGE(MarkSyncedRequest);
ELASTRIPE_MESSAGE(RaiseFloorRequest);
ELASTRIPE_MESSAGE(DropTombstonesRequest);
ELASTRIPE_MESSAGE(RecordConfirmRequest);
ELASTRIPE_MESSAGE(RecordConfirmReply);
ELASTRIPE_MESSAGE(RecordFetchRequest);
ELASTRIPE_MESSAGE(RecordFetchReply);

}  // namespace elastripe::node
