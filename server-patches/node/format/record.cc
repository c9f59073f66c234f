#include "server-patches/node/format/record.h"

#include <algorithm>
#include <numeric>

namespace elastripe::node {
namespace {

// Fixed part of a segment entry, and of each member of a list: what a hostile count is held
// against.
constexpr size_t kAttemptBytes = 24;
constexpr size_t kMetaBytes = 25;  // without attempts

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
  out.reserve(out.size() + kMetaBytes + kAttemptBytes * meta.recent.size());
  Writer w(out);
  w.u64(meta.version);
  w.u64(meta.value_version);
  w.u64(meta.fence);
  w.u8(static_cast<uint8_t>(meta.recent.size()));
  for (const RecentAttempt& attempt : meta.recent) {
    w.u64(attempt.version);
    w.id(attempt.attempt_id);
  }
}

namespace {
void encode_start(const RecordContent& content, Writer& w) {
  w.u8(static_cast<uint8_t>(content.kind));
  w.u32(content.flags);
  w.u32(content.exptime);
  w.u64(content.size);
  encode(content.scheme, w);
}
}  // namespace

void encode_head(const RecordContent& content, size_t value_bytes, std::string& out) {
  Writer w(out);
  encode_start(content, w);
  w.u32(static_cast<uint32_t>(value_bytes));
}

void encode(const RecordContent& content, std::string& out) {
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
}

void encode(const Record& record, std::string& out) {
  encode(record.meta, out);
  encode(record.content, out);
}

Decoded<void> decode_meta(Reader& in, RecordMeta& meta) {
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
