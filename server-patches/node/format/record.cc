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
      break;
    case RecordKind::kTombstone:
      break;
  }
  finish(begin, {}, out);
}

void encode(const Record& record, std::string& out) {
  encode(record.meta, out);
  encode(record.content, out);
}

bool is_intact(ByteView record) {
  if (record.size() <= kAttemptsAt) return false;
  const auto attempts = static_cast<size_t>(record[kAttemptsAt]);
  const size_t covered = kMetaBytes - sizeof(uint32_t) + kAttemptBytes * attempts;
  if (attempts > kRecentAttempts || record.size() < covered + 2 * sizeof(uint32_t)) return false;
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
  meta.recent.clear();
  meta.recent.reserve(attempts + 1);  // a commit adds its own
  for (size_t i = 0; i < attempts; ++i) {
    const uint64_t version = in.u64();
    meta.recent.push_back({version, in.id()});
  }
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
  }
  if (!in.ok()) return std::unexpected("record is cut off or has a malformed segment");
  if (size != content.size) return std::unexpected("record size does not match its contents");
  return {};
}

Decoded<void> decode_record(ByteView bytes, Record& record, std::string_view& value) {
  Reader in(bytes);
  if (auto meta = decode_meta(in, record.meta); !meta) return meta;
  if (auto content = decode_content(in, record.content, value); !content) return content;
  if (!in.complete()) return std::unexpected("record has left-over bytes");
  return {};
}
}  // namespace

Decoded<Record> decode_replaced(ByteView bytes) {
  Record record;
  Reader in(bytes);
  if (auto meta = decode_meta(in, record.meta); !meta) {
    return std::unexpected(std::move(meta.error()));
  }
  // Where a striped record has the number of its segments, the length of the value fills the rest:
  // so no other kind is taken for inline.
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
