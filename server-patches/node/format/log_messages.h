// Update logs on the wire: what nodes tell of them, and the frames about them. docs/updates.md,
// "The log"; docs/node-protocol.md, "Update logs".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server-patches/node/format/message.h"
#include "server-patches/node/format/record.h"

namespace elastripe::node {

// A larger update is written into shards at once: it costs as much, and takes no room in the log.
inline constexpr size_t kMaxLoggedBytes = 64u << 10;
// What a log may hold at the tail, so that all of it fits in a frame: bytes of an image, and of the
// updates that are not settled how many. A copy that lags behind with what is settled, or folded,
// may have twice as much.
inline constexpr size_t kMaxLogBytes = 2u << 20;
inline constexpr size_t kMaxUnsettled = 256;
// Those that a node remembers of a key.
inline constexpr size_t kRecentUpdates = 256;
// Those of a key that wait at a copy for their numbers. One that nobody has numbered yet waits only
// while these bytes are enough for what is not settled there, too.
inline constexpr size_t kMaxUnnumbered = 64;
inline constexpr size_t kMaxUnnumberedBytes = 1u << 20;
// What is not settled may be so many: sync gives numbers to what had none.
inline constexpr size_t kMaxNames = kMaxUnsettled + kMaxUnnumbered;

// An update, by the name that its proxy gave it and by its number. LSNs rise by the order in which
// the tail has taken the updates of a key.
struct UpdateName {
  Id128 id;
  uint64_t lsn = 0;
  friend bool operator==(const UpdateName&, const UpdateName&) = default;
};
inline constexpr size_t kUpdateNameBytes = 24;

// Bytes of an update, whole or what later ones have left of it. `bytes` lie elsewhere.
struct LogExtent {
  Id128 id;  // of the update; zero if it is settled: then nobody asks for it
  uint64_t lsn = 0;
  uint64_t offset = 0;  // in the object
  uint32_t crc32c = 0;  // of the bytes
  std::string_view bytes;
  uint64_t end() const { return offset + bytes.size(); }
  friend bool operator==(const LogExtent&, const LogExtent&) = default;
};
inline constexpr size_t kExtentBytes = 40;  // without its bytes

// A log, or what lies over a range of it (without `recent`).
struct LogImage {
  uint64_t value = 0;       // the value_version of the record that it belongs to
  uint64_t last = 0;        // the highest LSN of an update that it has, or had
  uint64_t rank = 0;        // of two images of a log that with the higher one counts; >= last
  uint64_t settled_to = 0;  // updates up to this one are at all copies
  uint64_t reach = 0;       // `recent` has all that came after this LSN
  std::vector<UpdateName> recent;    // ascending
  std::vector<LogExtent> settled;    // disjoint, ascending by offset
  std::vector<LogExtent> unsettled;  // as they came, ascending by LSN: they may overlap
  // Those that have no number there, in the order in which they came. Not in a view.
  std::vector<LogExtent> unnumbered;
};
void encode(const LogImage& image, std::string& out);
// The bytes of its extents lie in `in`. Refuses what is out of order, and more than a log may hold;
// does not compare checksums of bytes.
Decoded<LogImage> decode_log(ByteView in);

// LOG_APPEND: an update, at the tail, which numbers it. Payload: its bytes. An update that it has
// already taken is answered again.
struct LogAppendReply {
  uint64_t lsn = 0;
  uint64_t settled_to = 0;
  uint64_t last = 0;  // the newest number of the key: an update's, or the record's version
  std::vector<UpdateName> unsettled;  // those below `lsn`, ascending
  uint32_t cost = 0;                  // how full it is; kMaxLogBytes at most
};
struct LogAppendRequest {
  static constexpr Opcode kOpcode = Opcode::kLogAppend;
  using Reply = LogAppendReply;
  static constexpr StatusSet kAnswers = {Status::kOk, Status::kForgotten};
  static constexpr StatusSet kTold = {
      Status::kNotSynced,       Status::kNotFound, Status::kOtherValue, Status::kOutOfRange,
      Status::kConditionFailed, Status::kLogFull,  Status::kRenumber};
  uint8_t m = 1;
  Id128 id;
  uint64_t value = 0;  // that it is an update of: the record's value_version
  // The highest version or LSN of the key that was known when the update got its name. kForgotten
  // if the tail does not remember all that came after.
  uint64_t known = 0;
  uint64_t cas = 0;  // only if the value has it, else kConditionFailed; 0: whatever it is
  uint64_t offset = 0;
  uint32_t crc32c = 0;  // of the payload
  std::string_view key;
  // Updates up to this one are at all copies; 0: none that the sender has not told of before.
  uint64_t settled_to = 0;
};
// Payload of kOtherValue: the record, if there is one.

// LOG_STORE: updates, at the other copies. Payload: their bytes, one after the other. The
// head may have another value by then: kOk if it had the updates before that; kOtherValue, with the
// record, if it lacks one, which so never takes effect; kForgotten if it can not tell.
//
// The first may have no number yet (lsn 0), as it was sent to the tail at the same time. It is
// taken only while the copy has that value, and it is not flushed or expired; else it is among the
// missing ones.
struct LogStoreReply {
  std::vector<Id128> missing;  // of those listed: not here
  // Others without a number that came before one that has none, and have bytes of the same places:
  // who recovers from this copy would put it over them.
  std::vector<Id128> ahead;
};
struct LogStoreRequest {
  static constexpr Opcode kOpcode = Opcode::kLogStore;
  using Reply = LogStoreReply;
  static constexpr StatusSet kTold = {Status::kNotSynced, Status::kOtherValue, Status::kForgotten,
                                      Status::kNoSpace};
  struct Entry {
    UpdateName name;
    uint64_t offset = 0;
    uint32_t length = 0;
    uint32_t crc32c = 0;
  };
  uint8_t m = 1;
  uint64_t value = 0;
  uint64_t settled_to = 0;
  std::vector<Entry> entries;         // ascending by LSN, at most kMaxNames
  std::vector<UpdateName> unsettled;  // what the copy has to have besides
  std::string_view key;
  uint64_t known = 0;  // of an update without a number: as in LogAppendRequest
  bool has_unnumbered() const { return !entries.empty() && entries.front().name.lsn == 0; }
};

// LOG_SETTLE, to tails: all copies have these, says who has seen to it. To copies: the numbers of
// updates that they have.
struct LogSettleReply {
  std::vector<uint32_t> lacking;  // places of entries whose updates are not all here with a number
};
struct LogSettleRequest {
  static constexpr Opcode kOpcode = Opcode::kLogSettle;
  using Reply = LogSettleReply;
  struct Entry {
    std::string key;
    uint64_t value = 0;
    uint64_t settled_to = 0;               // 0: nothing that the node has not been told before
    std::vector<UpdateName> numbers = {};  // ascending; of all that is not settled up to the last
  };
  std::vector<Entry> entries;  // at most kMaxListEntries
};

// LOG_CANCEL: updates that shall not be made. The tail first: it tells which it has taken, and
// takes none of the others any more under this map. The copies then forget what they have of those.
struct LogCancelReply {
  std::vector<uint64_t> lsns;  // of each: its number if it has one, then it stays; 0: cancelled
};
struct LogCancelRequest {
  static constexpr Opcode kOpcode = Opcode::kLogCancel;
  using Reply = LogCancelReply;
  static constexpr StatusSet kTold = {Status::kNotSynced, Status::kNoSpace};
  uint8_t m = 1;
  uint64_t value = 0;
  // What was sent with as little knowledge as they may come later, and is to be refused. 0: who
  // waits for it sees to that.
  uint64_t known = 0;
  std::string_view key;
  std::vector<Id128> ids;  // at most kMaxUnnumbered
};

// LOG_SCAN: the logs that the node has as a tail.
struct ScannedLog {
  std::string key;
  uint32_t bytes = 0;
  uint32_t age_ms = 0;   // of the oldest update
  uint32_t idle_ms = 0;  // of the newest
};
struct LogScanReply {
  uint64_t cursor = 0;  // 0: done
  std::vector<ScannedLog> logs;
  // Keys of logs, as whichever copy, in which an update has waited for its number so long that its
  // proxy may be dead.
  std::vector<std::string> unnumbered;
};
struct LogScanRequest {
  static constexpr Opcode kOpcode = Opcode::kLogScan;
  using Reply = LogScanReply;
  uint64_t cursor = 0;
  uint32_t max_entries = 0;
  uint32_t min_age_ms = 0;
};

ELASTRIPE_MESSAGE(LogAppendRequest);
ELASTRIPE_MESSAGE(LogAppendReply);
ELASTRIPE_MESSAGE(LogStoreRequest);
ELASTRIPE_MESSAGE(LogStoreReply);
ELASTRIPE_MESSAGE(LogSettleRequest);
ELASTRIPE_MESSAGE(LogSettleReply);
ELASTRIPE_MESSAGE(LogCancelRequest);
ELASTRIPE_MESSAGE(LogCancelReply);
ELASTRIPE_MESSAGE(LogScanRequest);
ELASTRIPE_MESSAGE(LogScanReply);

}  // namespace elastripe::node
