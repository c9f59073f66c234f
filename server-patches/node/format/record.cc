#include "server-patches/node/format/record.h"

#include <algorithm>
#include <numeric>

#include "server-patches/node/format/crc32c.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::node {
namespace {

constexpr size_t kAttemptsAt = 24;                                      // their number, in a meta
constexpr size_t kKindAt = 4;                                           // in a content
constexpr size_t kValueAt = kTombstoneContentBytes + sizeof(uint32_t);  // behind its length

bool matches(uint32_t crc, uint32_t stored) { return crc == stored || mutant(Mutant::kTrustBytes); }

void put_u32(uint32_t value, size_t at, std::string& out) {
  value = little_endian(value);
  std::memcpy(out.data() + at, &value, sizeof(value));
}

void encode(const Segment& segment, Writer& w) {
  w.id(segment.data_txid);
  w.id(segment.parity_txid);
  w.u32(segment.number);
  w.u32(segment.generation);
  w.u8(static_cast<uint8_t>(segment.state));
  w.u32(segment.length);
  w.u32(segment.block_bytes);
  w.u32(segment.crc32c);
  w.u8(static_cast<uint8_t>(segment.placement.size()));
  for (const NodeId node : segment.placement) w.u16(node);
}

Segment decode_segment(Reader& in, const coding::Scheme& scheme) {
  Segment segment;
  segment.data_txid = in.id();
  segment.parity_txid = in.id();
  segment.number = in.u32();
  segment.generation = in.u32();
  const uint8_t state = in.u8();
  if (state > static_cast<uint8_t>(coding::State::kWide)) in.fail();
  segment.state = static_cast<coding::State>(state);
  segment.length = in.u32();
  segment.block_bytes = in.u32();
  segment.crc32c = in.u32();
  const size_t placed = in.count<uint8_t>(sizeof(NodeId));
  if (placed != static_cast<size_t>(scheme.shards())) in.fail();
  // A segment is l = lcm(k, k') blocks: bytes beyond them would have no shard.
  const uint64_t blocks = std::lcm<uint64_t>(scheme.k, scheme.k_prime);
  if (segment.length > blocks * segment.block_bytes) in.fail();
  if (segment.length > kMaxSegmentBytes) in.fail();
  if (!in.ok()) return segment;
  segment.placement.reserve(placed);
  for (size_t i = 0; i < placed; ++i) segment.placement.push_back(in.u16());
  return segment;
}

void encode_moved(const std::vector<Segment>& segments, Writer& w) {
  size_t moved = 0;
  for (const Segment& segment : segments) moved += segment.moved.size();
  w.u32(static_cast<uint32_t>(moved));
  for (size_t i = 0; i < segments.size(); ++i) {
    for (const MovedShard& shard : segments[i].moved) {
      w.u32(static_cast<uint32_t>(i));
      w.u8(shard.index);
      w.id(shard.txid);
    }
  }
}

bool is_folded(const Segment& segment) { return segment.folded_lsn != 0; }

// In the order of segments and indexes, so that every shard has one entry and every list one
// encoding.
void decode_moved(Reader& in, const coding::Scheme& scheme, std::vector<Segment>& segments) {
  const size_t moved = in.count<uint32_t>(kMovedShardBytes);
  size_t last_segment = 0;
  for (size_t i = 0; i < moved && in.ok(); ++i) {
    const size_t at = in.u32();
    const MovedShard shard{.index = in.u8(), .txid = in.id()};
    const bool exists = at < segments.size() && shard.index < scheme.shards();
    if (!exists || at < last_segment || shard.txid.is_zero()) return in.fail();
    std::vector<MovedShard>& of_segment = segments[at].moved;
    if (!of_segment.empty() && shard.index <= of_segment.back().index) return in.fail();
    of_segment.push_back(shard);
    last_segment = at;
  }
}

void encode_folded(const std::vector<Segment>& segments, Writer& w) {
  w.u32(static_cast<uint32_t>(std::ranges::count_if(segments, is_folded)));
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].folded_lsn == 0) continue;
    w.u32(static_cast<uint32_t>(i));
    w.u64(segments[i].folded_lsn);
  }
}

// All of them, in order: what follows them in a later program's record has a list of its own.
void decode_folded(Reader& in, std::vector<Segment>& segments) {
  const size_t folded = in.count<uint32_t>(kFoldedBytes);
  size_t next = 0;
  for (size_t i = 0; i < folded && in.ok(); ++i) {
    const size_t at = in.u32();
    if (at < next || at >= segments.size()) return in.fail();
    segments[at].folded_lsn = in.u64();
    if (segments[at].folded_lsn == 0) return in.fail();
    next = at + 1;
  }
}

// Behind the segments: a list for each thing that few of them have. A content ends before the first
// of which it has none, if it has none of those behind it.
void encode_lists(const std::vector<Segment>& segments, bool is_marked, Writer& w) {
  const bool any_folded = is_marked || std::ranges::any_of(segments, is_folded);
  const bool any_moved =
      std::ranges::any_of(segments, [](const Segment& segment) { return !segment.moved.empty(); });
  if (any_moved || any_folded) encode_moved(segments, w);
  if (any_folded) encode_folded(segments, w);
}

void encode(const coding::Scheme& scheme, Writer& w) {
  w.u8(static_cast<uint8_t>(scheme.layout));
  w.u8(scheme.k);
  w.u8(scheme.m);
  w.u8(scheme.k_prime);
}

Decoded<coding::Scheme> decode_scheme(Reader& in) {
  const uint8_t layout = in.u8();
  coding::Scheme scheme;
  scheme.layout = static_cast<coding::LayoutKind>(layout);
  scheme.k = in.u8();
  scheme.m = in.u8();
  scheme.k_prime = in.u8();
  if (!in.ok()) return std::unexpected("record is cut off");
  if (layout > static_cast<uint8_t>(coding::LayoutKind::kErs2)) {
    return std::unexpected("unknown layout " + std::to_string(layout));
  }
  if (auto valid = coding::validate(scheme); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  return scheme;
}

}  // namespace

Id128 txid_of_shard(const Segment& segment, const coding::Scheme& scheme, size_t index) {
  const auto moved = std::ranges::find(segment.moved, index, &MovedShard::index);
  if (moved != segment.moved.end()) return moved->txid;
  return index < scheme.k_prime ? segment.data_txid : segment.parity_txid;
}

void name_moved_shard(Segment& segment, size_t index, const Id128& txid) {
  const auto place = std::ranges::lower_bound(segment.moved, index, {}, &MovedShard::index);
  if (place != segment.moved.end() && place->index == index) {
    place->txid = txid;
  } else {
    segment.moved.insert(place, {static_cast<uint8_t>(index), txid});
  }
}

void name_parity_shards(Segment& segment, const coding::Scheme& scheme, const Id128& txid) {
  segment.parity_txid = txid;
  std::erase_if(segment.moved,
                [&](const MovedShard& shard) { return shard.index >= scheme.k_prime; });
}

bool has_same_data_shards(const Segment& a, const Segment& b, const coding::Scheme& scheme) {
  for (size_t i = 0; i < scheme.k_prime; ++i) {
    if (txid_of_shard(a, scheme, i) != txid_of_shard(b, scheme, i)) return false;
    if (a.placement[i] != b.placement[i]) return false;
  }
  return a.number == b.number;
}

uint64_t folded_lsn(const RecordContent& content) {
  uint64_t folded = 0;
  for (const Segment& segment : content.segments) folded = std::max(folded, segment.folded_lsn);
  return folded;
}

uint64_t last_change(const Record& record, uint64_t last_lsn) {
  return std::max({record.meta.value_version, last_lsn, folded_lsn(record.content)});
}

uint64_t cas_of(const Record& record, uint64_t last_lsn) {
  const uint64_t changed = last_change(record, last_lsn);
  const uint64_t given_in = std::max(record.content.cas_since, record.meta.value_version);
  return record.content.cas != 0 && changed <= given_in ? record.content.cas : changed;
}

const RecentAttempt* Record::find_attempt(const Id128& attempt_id) const {
  const auto found = std::ranges::find(meta.recent, attempt_id, &RecentAttempt::attempt_id);
  return found == meta.recent.end() ? nullptr : &*found;
}

void encode(const RecordMeta& meta, std::string& out) {
  const size_t begin = out.size();
  out.reserve(begin + kMetaBytes + kAttemptBytes * meta.recent.size());
  Writer w(out);
  w.u64(meta.version);
  w.u64(meta.value_version);
  w.u64(meta.fence);
  w.u8(static_cast<uint8_t>(meta.recent.size()));
  for (const RecentAttempt& attempt : meta.recent) {
    w.u64(attempt.version);
    w.id(attempt.attempt_id);
  }
  w.u8(0);  // bytes of fields that are not known here
  w.u32(crc32c(as_view(out).subspan(begin)));
}

namespace {
// Up to the value or the segments. The checksum comes first, so that it is known of a record's head
// before a value that lies elsewhere; finish() computes it.
void encode_start(const RecordContent& content, Writer& w) {
  w.u32(0);
  w.u8(static_cast<uint8_t>(content.kind));
  w.u32(content.flags);
  w.u32(content.exptime);
  w.u64(content.size);
  encode(content.scheme, w);
}

// Behind all else; a content without any of it ends before it.
void encode_marks(const RecordContent& content, Writer& w) {
  if (!content.is_marked()) return;
  w.u8(content.marks);
  w.u64(content.cas);
  w.u64(content.cas_since);
}

void decode_marks(Reader& in, RecordContent& content) {
  if (in.at_end()) return;
  content.marks = in.u8();
  content.cas = in.u64();
  content.cas_since = in.u64();
  if (content.cas == 0 && content.cas_since != 0) in.fail();
}

// `begin`: where the content does in `out`; `value` follows it.
void finish(size_t begin, ByteView value, std::string& out) {
  const ByteView covered = as_view(out).subspan(begin + sizeof(uint32_t));
  put_u32(crc32c(value, crc32c(covered)), begin, out);
}
}  // namespace

void encode_head(const RecordContent& content, ByteView value, std::string& out) {
  const size_t begin = out.size();
  Writer w(out);
  encode_start(content, w);
  w.u32(static_cast<uint32_t>(value.size()));
  finish(begin, value, out);
}

void encode(const RecordContent& content, std::string& out) {
  const size_t begin = out.size();
  Writer w(out);
  encode_start(content, w);
  switch (content.kind) {
    case RecordKind::kInline:
      w.long_string(content.value);
      break;
    case RecordKind::kStriped:
      w.u32(static_cast<uint32_t>(content.segments.size()));
      for (const Segment& segment : content.segments) encode(segment, w);
      encode_lists(content.segments, content.is_marked(), w);
      break;
    case RecordKind::kTombstone:
      break;
  }
  encode_marks(content, w);
  finish(begin, {}, out);
}

void encode(const Record& record, std::string& out) {
  encode(record.meta, out);
  encode(record.content, out);
}

bool is_intact(ByteView record) {
  if (record.size() <= kAttemptsAt) return false;
  const auto attempts = static_cast<size_t>(record[kAttemptsAt]);
  const size_t tail_at = kAttemptsAt + 1 + kAttemptBytes * attempts;  // its length
  if (attempts > kRecentAttempts || record.size() <= tail_at) return false;
  const size_t covered = tail_at + 1 + static_cast<size_t>(record[tail_at]);
  if (record.size() < covered + 2 * sizeof(uint32_t)) return false;
  Reader checksums(record.subspan(covered));
  const uint32_t of_meta = checksums.u32();
  const uint32_t of_content = checksums.u32();
  return matches(crc32c(record.first(covered)), of_meta) &&
         matches(crc32c(checksums.left()), of_content);
}

Decoded<void> decode_meta(Reader& in, RecordMeta& meta) {
  const ByteView bytes = in.left();
  meta.version = in.u64();
  meta.value_version = in.u64();
  meta.fence = in.u64();
  const size_t attempts = in.count<uint8_t>(kAttemptBytes);
  if (!in.ok()) return std::unexpected("record is cut off");
  if (attempts > kRecentAttempts) return std::unexpected("record lists too many attempts");
  meta.recent.reserve(attempts + 1);  // a commit adds its own
  meta.recent.resize(attempts);
  // Every record that is read has this list, so it is taken as a whole.
  static_assert(sizeof(RecentAttempt) == kAttemptBytes);
  std::ranges::copy(in.raw(attempts * kAttemptBytes), reinterpret_cast<char*>(meta.recent.data()));
  for (RecentAttempt& attempt : meta.recent) {
    attempt.version = little_endian(attempt.version);
    attempt.attempt_id.hi = little_endian(attempt.attempt_id.hi);
    attempt.attempt_id.lo = little_endian(attempt.attempt_id.lo);
  }
  const size_t tail = in.u8();  // fields of a later program
  in.raw(tail);
  const size_t covered = bytes.size() - in.left().size();
  const uint32_t crc = in.u32();
  if (!in.ok()) return std::unexpected("record is cut off");
  if (!matches(crc32c(bytes.first(covered)), crc)) {
    return std::unexpected("record does not match its checksum");
  }
  return {};
}

Decoded<RecordMeta> decode_meta(Reader& in) {
  RecordMeta meta;
  if (auto decoded = decode_meta(in, meta); !decoded) {
    return std::unexpected(std::move(decoded.error()));
  }
  return meta;
}

namespace {
// `value` points to an inline value, and content.value stays empty.
Decoded<void> decode_content(Reader& in, RecordContent& content, std::string_view& value) {
  value = {};
  content.value.clear();
  content.segments.clear();
  content.marks = 0;
  content.cas = content.cas_since = 0;
  const uint32_t crc = in.u32();
  if (!in.ok()) return std::unexpected("record is cut off");
  if (!matches(crc32c(in.left()), crc)) {
    return std::unexpected("record does not match its checksum");
  }
  const uint8_t kind = in.u8();
  if (kind > static_cast<uint8_t>(RecordKind::kTombstone)) {
    return std::unexpected("unknown record kind " + std::to_string(kind));
  }
  content.kind = static_cast<RecordKind>(kind);
  content.flags = in.u32();
  content.exptime = in.u32();
  content.size = in.u64();
  auto scheme = decode_scheme(in);
  if (!scheme) return std::unexpected(std::move(scheme.error()));
  content.scheme = *scheme;
  uint64_t size = 0;
  if (content.kind == RecordKind::kInline) {
    value = in.long_string();
    size = value.size();
  } else if (content.kind == RecordKind::kStriped) {
    const size_t segments = in.count<uint32_t>(kSegmentBytes);
    content.segments.reserve(segments);
    for (size_t i = 0; i < segments && in.ok(); ++i) {
      content.segments.push_back(decode_segment(in, content.scheme));
      size += content.segments.back().length;
    }
    if (in.ok() && !in.at_end()) decode_moved(in, content.scheme, content.segments);
    if (in.ok() && !in.at_end()) decode_folded(in, content.segments);
  }
  if (in.ok()) decode_marks(in, content);
  if (!in.ok()) return std::unexpected("record is cut off or has a malformed segment");
  if (size != content.size) return std::unexpected("record size does not match its contents");
  in.rest();  // fields of a later program
  return {};
}

Decoded<void> decode_record(ByteView bytes, Record& record, std::string_view& value) {
  Reader in(bytes);
  if (auto meta = decode_meta(in, record.meta); !meta) return meta;
  return decode_content(in, record.content, value);
}
}  // namespace

Decoded<Record> decode_replaced(ByteView bytes) {
  Record record;
  Reader in(bytes);
  if (auto meta = decode_meta(in, record.meta); !meta) {
    return std::unexpected(std::move(meta.error()));
  }
  // Where a striped record has the number of its segments, the length of the value fills the rest:
  // so no other kind is taken for inline. An inline one with a tail is checked whole.
  const ByteView content = in.left();
  const bool is_inline =
      content.size() >= kValueAt &&
      content[kKindAt] == static_cast<std::byte>(RecordKind::kInline) &&
      Reader(content.subspan(kValueAt - sizeof(uint32_t))).u32() == content.size() - kValueAt;
  if (!is_inline) return decode_record(bytes);
  record.content.kind = RecordKind::kInline;
  return record;
}

Decoded<RecordContent> decode_content(Reader& in) {
  std::string_view value;
  auto content = decode_content(in, value);
  if (content) content->value = value;
  return content;
}

Decoded<RecordContent> decode_content(Reader& in, std::string_view& value) {
  RecordContent content;
  if (auto decoded = decode_content(in, content, value); !decoded) {
    return std::unexpected(std::move(decoded.error()));
  }
  return content;
}

Decoded<void> decode_record(ByteView bytes, Record& record) {
  std::string_view value;
  auto decoded = decode_record(bytes, record, value);
  if (decoded) record.content.value = value;
  return decoded;
}

Decoded<Record> decode_record(ByteView bytes) {
  std::string_view value;
  auto record = decode_record(bytes, value);
  if (record) record->content.value = value;
  return record;
}

Decoded<Record> decode_record(ByteView bytes, std::string_view& value) {
  Record record;
  if (auto decoded = decode_record(bytes, record, value); !decoded) {
    return std::unexpected(std::move(decoded.error()));
  }
  return record;
}

}  // namespace elastripe::node
