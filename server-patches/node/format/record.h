// The record: the directory entry of an object. docs/node-protocol.md, "Records".
//
//   record = meta | content
//
// The meta is what the head assigns (rule 5 of docs/consistency.md), the content what a commit
// brings. They are encoded one after the other, so that a proxy appends the content that it already
// holds to the meta that the head answers.
//
// Each carries a CRC32C of its own from where it was made to where it is used: the meta that of the
// head, the content that of the proxy which encoded it (the head's, where it changed a content that
// it had). Decoders refuse what does not match, so bytes that changed anywhere never become a
// value.
//
// Both grow at their end only: a decoder ignores what it does not know there, and who encodes
// either anew drops it.
#pragma once

#include <vector>

#include "coding/scheme.h"
#include "server-patches/node/format/frame.h"

namespace elastripe::node {

inline constexpr size_t kMaxKeyBytes = 250;
inline constexpr size_t kRecentAttempts = 8;
// version = epoch number << 36 | number of the commit << 16 | 0. What an epoch has too few numbers
// for carries into the next one's, above which the floor of its map then lies.
inline constexpr int kCounterBits = 36;
inline constexpr uint32_t kMaxEpoch = (1u << 26) - 1;  // of which versions fit
// No version_floor of that map, or of a later one, is below it.
constexpr uint64_t first_version_of(uint32_t epoch_number) {
  return uint64_t{epoch_number} << kCounterBits;
}
// The numbers behind the version of a striped record are those of its updates: their LSNs. So the
// next version is above all of them, whoever knows which were given.
inline constexpr int kUpdateBits = 16;
constexpr uint64_t next_block(uint64_t version) {
  return ((version >> kUpdateBits) + 1) << kUpdateBits;
}
constexpr uint64_t last_of_block(uint64_t version) { return next_block(version) - 1; }

// Values are stored: never renumber.
enum class RecordKind : uint8_t {
  kInline = 0,     // the value lies in the record
  kStriped = 1,    // the value lies in the shards of the segment table
  kTombstone = 2,  // deleted; keeps versions monotonic
};

struct RecentAttempt {
  uint64_t version = 0;
  Id128 attempt_id;
  friend bool operator==(const RecentAttempt&, const RecentAttempt&) = default;
};

struct RecordMeta {
  uint64_t version = 0;        // orders every commit of the record
  uint64_t value_version = 0;  // moves only when memcached's cas would
  uint64_t fence = 0;          // transactions that started from a lower version must start again
  std::vector<RecentAttempt> recent;  // newest last, at most kRecentAttempts
  friend bool operator==(const RecordMeta&, const RecordMeta&) = default;
};

// A shard that was rebuilt or moved since its siblings were written: it has a txid of its own, so
// that no two tries at it ever take the same name.
struct MovedShard {
  uint8_t index = 0;
  Id128 txid;
  friend bool operator==(const MovedShard&, const MovedShard&) = default;
};

// A slice of a large object, coded and placed by itself.
struct Segment {
  Id128 data_txid;      // names the data shards that never moved
  Id128 parity_txid;    // names the current parity shards: of the PUT or transition that wrote them
  uint32_t number = 0;  // the shards' segment number under their txid
  uint32_t generation = 0;  // how many transitions the segment has seen
  coding::State state = coding::State::kNarrow;
  uint32_t length = 0;  // object bytes
  uint32_t block_bytes = 0;
  uint32_t crc32c = 0;            // of the object bytes in the shards; 0 = none
  std::vector<NodeId> placement;  // k' data shards, then m parity shards
  std::vector<MovedShard> moved;  // ascending by index; see txid_of_shard()
  // Updates up to this LSN are in the shards. What is newer lies in the update log
  // (docs/updates.md).
  uint64_t folded_lsn = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

// The txid that names shard `index`. Nothing else needs to know which shards have moved.
Id128 txid_of_shard(const Segment& segment, const coding::Scheme& scheme, size_t index);
// Shard `index` was rebuilt or moved, and the new one was written under `txid`. Its node is for the
// caller to set.
void name_moved_shard(Segment& segment, size_t index, const Id128& txid);
// All parities were written anew, under `txid`: none of them has moved since.
void name_parity_shards(Segment& segment, const coding::Scheme& scheme, const Id128& txid);
// Whether both name the same data shards on the same nodes. They are segments of one scheme.
bool has_same_data_shards(const Segment& a, const Segment& b, const coding::Scheme& scheme);

// The size of an encoded segment, without its placement and moved shards.
inline constexpr size_t kSegmentBytes = 54;
// The sizes of an encoded moved shard, and of what says up to where a segment is folded.
inline constexpr size_t kMovedShardBytes = 21;
inline constexpr size_t kFoldedBytes = 12;
// More than any configuration has (segment_bytes): what would make a reader take more memory is no
// record.
inline constexpr uint32_t kMaxSegmentBytes = 64u << 20;
// The size of what is marked and given, behind all else, of a content that has some of it.
inline constexpr size_t kMarksBytes = 17;
// The sizes of an encoded meta without attempts, of each attempt, and of a tombstone's content.
inline constexpr size_t kMetaBytes = 30;
inline constexpr size_t kAttemptBytes = 24;
inline constexpr size_t kTombstoneContentBytes = 25;

// Marks that memcached's meta commands leave on a value for who reads it next. Values are bits on
// the wire: never renumber.
inline constexpr uint8_t kStale = 1;     // it is to be made anew, and may be used until then
inline constexpr uint8_t kWinTaken = 2;  // somebody was told to make it anew

struct RecordContent {
  RecordKind kind = RecordKind::kTombstone;
  uint32_t flags = 0;    // the client's
  uint32_t exptime = 0;  // unix seconds; 0 = never. The only place of an expiry (rule 17)
  uint64_t size = 0;     // object bytes
  coding::Scheme scheme;
  std::string value;              // kInline
  std::vector<Segment> segments;  // kStriped, in object order
  uint8_t marks = 0;
  // The cas that a client or a mark has given, as a version (cas_of()); 0: none. It was given by
  // the record's version `cas_since`; 0: by the one that made the value.
  uint64_t cas = 0;
  uint64_t cas_since = 0;

  bool is_marked() const { return marks != 0 || cas != 0; }
  bool has_mark(uint8_t mark) const { return (marks & mark) != 0; }
  friend bool operator==(const RecordContent&, const RecordContent&) = default;
};

struct Record {
  RecordMeta meta;
  RecordContent content;
  friend bool operator==(const Record&, const Record&) = default;

  bool is_tombstone() const { return content.kind == RecordKind::kTombstone; }
  bool is_striped() const { return content.kind == RecordKind::kStriped; }
  // Expired things are misses everywhere; memcached's comparison (exptime <= now).
  bool is_expired(uint64_t now_ms) const {
    return content.exptime != 0 && content.exptime <= now_ms / 1000;
  }
  // So are those that were there when all were flushed (rule 27). A touch, a fence or a transition
  // gives the record a version of its own, but no other value.
  bool is_flushed(uint64_t flush_floor) const { return meta.value_version <= flush_floor; }
  bool is_live(uint64_t now_ms, uint64_t flush_floor) const {
    return !is_tombstone() && !is_expired(now_ms) && !is_flushed(flush_floor);
  }
  // A dead object without shards leaves nothing else behind.
  bool is_as_good_as_tombstone(uint64_t now_ms, uint64_t flush_floor) const {
    return content.kind != RecordKind::kStriped && !is_live(now_ms, flush_floor);
  }
  const RecentAttempt* find_attempt(const Id128& attempt_id) const;
};

// Some segment has the updates up to this LSN, and none has more.
uint64_t folded_lsn(const RecordContent& content);
// What made the value, be it a commit or the last of its updates. Those that are not in the shards
// are known to the log only: `last_lsn`, 0 without one.
uint64_t last_change(const Record& record, uint64_t last_lsn);
// memcached's cas of the value: one that was given after the last change, else that.
uint64_t cas_of(const Record& record, uint64_t last_lsn);

void encode(const RecordMeta& meta, std::string& out);
void encode(const RecordContent& content, std::string& out);
// The same of an inline content whose value (not in `content`) follows, and is its end, as long as
// nothing is marked and no cas given: all that is before it.
void encode_head(const RecordContent& content, ByteView value, std::string& out);
void encode(const Record& record, std::string& out);
// Whether the checksums of an encoded record match: decode_record() refuses any other.
bool is_intact(ByteView record);
Decoded<RecordMeta> decode_meta(Reader& in);
// Into a meta that was used before, with its memory; after an error it means nothing.
Decoded<void> decode_meta(Reader& in, RecordMeta& meta);
// A content is all that is left of `in`, which is at its end afterwards.
Decoded<RecordContent> decode_content(Reader& in);
// Leaves an inline value where it is: `value` points to it, and content.value stays empty.
Decoded<RecordContent> decode_content(Reader& in, std::string_view& value);
// Checks the checksums, the scheme, the kinds, that segment lengths add up to `size`, placement
// sizes, and that moved shards exist and are in order.
Decoded<Record> decode_record(ByteView in);
Decoded<Record> decode_record(ByteView in, std::string_view& value);
// Into a record that was used before, with its memory; after an error it means nothing.
Decoded<void> decode_record(ByteView in, Record& record);
// What matters of a record in whose place another one comes: the meta and, of a striped one, the
// segments. The content of an inline one is neither read nor checked.
Decoded<Record> decode_replaced(ByteView in);

}  // namespace elastripe::node
