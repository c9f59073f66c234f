#include "server-patches/node/format/messages.h"

#include <algorithm>
#include <functional>

namespace elastripe::node {
namespace {

// The least that an element of a list takes on the wire.
constexpr size_t kKeyBytes = 3;
constexpr size_t kScannedRecordBytes = kKeyBytes + 4;
constexpr size_t kCommitBytes = 24;
constexpr size_t kScannedVersionBytes = kKeyBytes + kCommitBytes + 2;
constexpr size_t kFloorBytes = 12;
constexpr size_t kTombstoneBytes = kKeyBytes + 8;
constexpr size_t kConfirmEntryBytes = 9;
constexpr size_t kScannedShardBytes = kShardNameBytes + kKeyBytes + 12;

template <class Message>
Decoded<Message> finish(const Reader& in, Message message, const char* what) {
  if (!in.complete()) return std::unexpected(std::string("malformed ") + what);
  return message;
}

bool read_flag(Reader& in) {
  const uint8_t value = in.u8();
  if (value > 1) in.fail();
  return value == 1;
}

template <class Enum>
Enum read_enum(Reader& in, Enum last) {
  const uint8_t value = in.u8();
  if (value > static_cast<uint8_t>(last)) in.fail();
  return static_cast<Enum>(value);
}

std::string_view read_key(Reader& in, bool may_be_empty = false) {
  const std::string_view key = in.short_string();
  if (key.size() > kMaxKeyBytes || (key.empty() && !may_be_empty)) in.fail();
  return in.ok() ? key : std::string_view{};
}

// The first element that is cut off or malformed ends it.
template <class Element, class Read>
std::vector<Element> read_list(Reader& in, size_t element_bytes, Read read) {
  std::vector<Element> list;
  for (size_t left = in.count<uint32_t>(element_bytes); left > 0 && in.ok(); --left) {
    read(list.emplace_back());
  }
  return list;
}

void write_bits(Writer& w, const std::vector<uint8_t>& bits) {
  w.u32(static_cast<uint32_t>(bits.size()));
  for (const uint8_t byte : bits) w.u8(byte);
}

std::vector<uint8_t> read_bits(Reader& in) {
  std::vector<uint8_t> bits(in.count<uint32_t>(1));
  for (uint8_t& byte : bits) byte = in.u8();
  return bits;
}

void write_numbers(Writer& w, const std::vector<uint16_t>& numbers) {
  w.u16(static_cast<uint16_t>(numbers.size()));
  for (const uint16_t number : numbers) w.u16(number);
}

std::vector<uint16_t> read_numbers(Reader& in) {
  std::vector<uint16_t> numbers(in.count<uint16_t>(sizeof(uint16_t)));
  for (uint16_t& number : numbers) number = in.u16();
  return numbers;
}

// Ascending, each number once.
bool is_set(const std::vector<uint16_t>& numbers) {
  return std::ranges::adjacent_find(numbers, std::greater_equal{}) == numbers.end();
}

void write_commit(Writer& w, const CommitName& commit) {
  w.u64(commit.version);
  w.u64(commit.attempt_id.hi);
  w.u64(commit.attempt_id.lo);
}

CommitName read_commit(Reader& in) {
  CommitName commit;
  commit.version = in.u64();
  commit.attempt_id.hi = in.u64();
  commit.attempt_id.lo = in.u64();
  return commit;
}

void write_names(Writer& w, std::string& out, const std::vector<ShardName>& names) {
  w.u32(static_cast<uint32_t>(names.size()));
  for (const ShardName& name : names) encode(name, out);
}

std::vector<ShardName> read_names(Reader& in) {
  return read_list<ShardName>(in, kShardNameBytes,
                              [&](ShardName& name) { name = decode_name(in); });
}

// One list for both directions, so that they can not differ.
template <class Statistics, class Visit>
void each_number(Statistics& s, Visit visit) {
  for (auto* number : {&s.used_bytes, &s.limit_bytes, &s.records, &s.shards, &s.record_bytes,
                       &s.shard_bytes, &s.frames, &s.bytes_in, &s.bytes_out, &s.cpu_us}) {
    visit(*number);
  }
}

}  // namespace

void encode(const HelloReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.clock_ms);
  w.u64(m.max_version);
  w.u8(m.has_lease);
  write_bits(w, m.synced);
  each_number(m.statistics, [&](uint64_t number) { w.u64(number); });
}

template <>
Decoded<HelloReply> decode<HelloReply>(ByteView bytes) {
  Reader in(bytes);
  HelloReply m;
  m.clock_ms = in.u64();
  m.max_version = in.u64();
  m.has_lease = read_flag(in);
  m.synced = read_bits(in);
  each_number(m.statistics, [&](uint64_t& number) { number = in.u64(); });
  return finish(in, std::move(m), "HELLO reply");
}

void encode(const HeartbeatRequest& m, std::string& out) {
  Writer w(out);
  w.u64(m.lease_stamp_ms);
  w.u32(m.lease_ms);
}

template <>
Decoded<HeartbeatRequest> decode<HeartbeatRequest>(ByteView bytes) {
  Reader in(bytes);
  HeartbeatRequest m;
  m.lease_stamp_ms = in.u64();
  m.lease_ms = in.u32();
  return finish(in, m, "HEARTBEAT");
}

void encode(const RecordReadRequest& m, std::string& out) {
  Writer w(out);
  w.u8(static_cast<uint8_t>(m.role));
  w.u8(m.m);
  w.u64(m.if_version);
  w.short_string(m.key);
}

template <>
Decoded<RecordReadRequest> decode<RecordReadRequest>(ByteView bytes) {
  Reader in(bytes);
  RecordReadRequest m;
  m.role = read_enum(in, Role::kAny);
  m.m = in.u8();
  m.if_version = in.u64();
  m.key = read_key(in);
  return finish(in, m, "RECORD_READ");
}

void encode(const FloorReply& m, std::string& out) { Writer(out).u64(m.floor); }

template <>
Decoded<FloorReply> decode<FloorReply>(ByteView bytes) {
  Reader in(bytes);
  const FloorReply m{in.u64()};
  return finish(in, m, "floor");
}

void encode(const RecordApplyRequest& m, std::string& out) {
  Writer w(out);
  w.u8(m.m);
  w.id(m.attempt_id);
  w.u64(m.base_version);
  w.u8(static_cast<uint8_t>(m.condition));
  w.u64(m.condition_argument);
  w.u8(static_cast<uint8_t>(m.mutation));
  w.u64(m.delta);
  w.u32(m.inline_max_bytes);
  w.u8(m.blind);
  w.short_string(m.key);
}

template <>
Decoded<RecordApplyRequest> decode<RecordApplyRequest>(ByteView bytes) {
  Reader in(bytes);
  RecordApplyRequest m;
  m.m = in.u8();
  m.attempt_id = in.id();
  m.base_version = in.u64();
  m.condition = read_enum(in, Condition::kIfValueVersion);
  m.condition_argument = in.u64();
  m.mutation = read_enum(in, Mutation::kReshape);
  m.delta = in.u64();
  m.inline_max_bytes = in.u32();
  m.blind = read_flag(in);
  m.key = read_key(in);
  return finish(in, m, "RECORD_APPLY");
}

void encode(const RecordApplyReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.floor);
  w.u8(m.whole_record);
  w.long_string(m.superseded);
}

template <>
Decoded<RecordApplyReply> decode<RecordApplyReply>(ByteView bytes) {
  Reader in(bytes);
  RecordApplyReply m;
  m.floor = in.u64();
  m.whole_record = read_flag(in);
  m.superseded = in.long_string();
  return finish(in, m, "RECORD_APPLY reply");
}

void encode(const RecordStoreRequest& m, std::string& out) {
  Writer w(out);
  w.u8(m.m);
  w.u8(m.sync);
  w.u8(m.revive);
  w.short_string(m.key);
}

template <>
Decoded<RecordStoreRequest> decode<RecordStoreRequest>(ByteView bytes) {
  Reader in(bytes);
  RecordStoreRequest m;
  m.m = in.u8();
  m.sync = read_flag(in);
  m.revive = read_flag(in);
  m.key = read_key(in);
  return finish(in, m, "RECORD_STORE");
}

void encode(const RecordStoreReply& m, std::string& out) { Writer(out).u64(m.version); }

template <>
Decoded<RecordStoreReply> decode<RecordStoreReply>(ByteView bytes) {
  Reader in(bytes);
  const RecordStoreReply m{in.u64()};
  return finish(in, m, "RECORD_STORE reply");
}

void encode(const RecordScanRequest& m, std::string& out) {
  Writer w(out);
  w.u64(m.cursor);
  w.u32(m.max_bytes);
  w.u8(m.tombstones_only);
  w.u8(m.expired_only);
  w.u8(m.striped_only);
  w.u8(m.without_values);
  w.u32(m.min_age_s);
  w.u8(m.versions_only);
  w.short_string(m.prefix);
  write_bits(w, m.partitions);
}

template <>
Decoded<RecordScanRequest> decode<RecordScanRequest>(ByteView bytes) {
  Reader in(bytes);
  RecordScanRequest m;
  m.cursor = in.u64();
  m.max_bytes = in.u32();
  m.tombstones_only = read_flag(in);
  m.expired_only = read_flag(in);
  m.striped_only = read_flag(in);
  m.without_values = read_flag(in);
  m.min_age_s = in.u32();
  m.versions_only = read_flag(in);
  m.prefix = in.short_string();
  m.partitions = read_bits(in);
  return finish(in, std::move(m), "RECORD_SCAN");
}

void encode(const RecordScanReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.cursor);
  w.u32(static_cast<uint32_t>(m.records.size()));
  for (const ScannedRecord& record : m.records) {
    w.short_string(record.key);
    w.long_string(record.record);
  }
  w.u32(static_cast<uint32_t>(m.floors.size()));
  for (const auto& [partition, floor] : m.floors) {
    w.u32(partition);
    w.u64(floor);
  }
  w.u32(static_cast<uint32_t>(m.unsynced.size()));
  for (const uint32_t partition : m.unsynced) w.u32(partition);
  w.u32(static_cast<uint32_t>(m.versions.size()));
  for (const ScannedVersion& scanned : m.versions) {
    w.short_string(scanned.key);
    write_commit(w, scanned.commit);
    w.u8(scanned.forgotten);
    w.u8(scanned.damaged);
  }
}

template <>
Decoded<RecordScanReply> decode<RecordScanReply>(ByteView bytes) {
  Reader in(bytes);
  RecordScanReply m;
  m.cursor = in.u64();
  m.records = read_list<ScannedRecord>(in, kScannedRecordBytes, [&](ScannedRecord& record) {
    record.key = read_key(in);
    record.record = in.long_string();
  });
  using Floor = std::pair<uint32_t, uint64_t>;
  m.floors = read_list<Floor>(in, kFloorBytes, [&](Floor& floor) {
    floor.first = in.u32();
    floor.second = in.u64();
  });
  m.unsynced =
      read_list<uint32_t>(in, sizeof(uint32_t), [&](uint32_t& partition) { partition = in.u32(); });
  m.versions = read_list<ScannedVersion>(in, kScannedVersionBytes, [&](ScannedVersion& scanned) {
    scanned.key = read_key(in);
    scanned.commit = read_commit(in);
    scanned.forgotten = read_flag(in);
    scanned.damaged = read_flag(in);
  });
  return finish(in, std::move(m), "RECORD_SCAN reply");
}

void encode(const RecordConfirmRequest& m, std::string& out) {
  Writer w(out);
  w.u32(static_cast<uint32_t>(m.records.size()));
  for (const auto& record : m.records) {
    w.short_string(record.key);
    write_commit(w, record.commit);
  }
}

template <>
Decoded<RecordConfirmRequest> decode<RecordConfirmRequest>(ByteView bytes) {
  Reader in(bytes);
  RecordConfirmRequest m;
  using Entry = RecordConfirmRequest::Entry;
  m.records = read_list<Entry>(in, kKeyBytes + kCommitBytes, [&](Entry& record) {
    record.key = read_key(in);
    record.commit = read_commit(in);
  });
  return finish(in, std::move(m), "RECORD_CONFIRM");
}

void encode(const RecordConfirmReply& m, std::string& out) {
  Writer w(out);
  write_bits(w, m.held);
}

template <>
Decoded<RecordConfirmReply> decode<RecordConfirmReply>(ByteView bytes) {
  Reader in(bytes);
  RecordConfirmReply m{read_bits(in)};
  return finish(in, std::move(m), "RECORD_CONFIRM reply");
}

void encode(const RecordFetchRequest& m, std::string& out) {
  Writer w(out);
  w.u32(m.max_bytes);
  w.u32(static_cast<uint32_t>(m.keys.size()));
  for (const std::string& key : m.keys) w.short_string(key);
}

template <>
Decoded<RecordFetchRequest> decode<RecordFetchRequest>(ByteView bytes) {
  Reader in(bytes);
  RecordFetchRequest m;
  m.max_bytes = in.u32();
  m.keys = read_list<std::string>(in, kKeyBytes, [&](std::string& key) { key = read_key(in); });
  return finish(in, std::move(m), "RECORD_FETCH");
}

void encode(const RecordFetchReply& m, std::string& out) {
  Writer w(out);
  w.u32(static_cast<uint32_t>(m.sizes.size()));
  for (const uint32_t size : m.sizes) w.u32(size);
}

template <>
Decoded<RecordFetchReply> decode<RecordFetchReply>(ByteView bytes) {
  Reader in(bytes);
  RecordFetchReply m;
  m.sizes = read_list<uint32_t>(in, sizeof(uint32_t), [&](uint32_t& size) { size = in.u32(); });
  return finish(in, std::move(m), "RECORD_FETCH reply");
}

void encode(const MarkSyncedRequest& m, std::string& out) {
  Writer w(out);
  w.u32(m.partition);
  w.short_string(m.key);
  w.u64(m.floor);
}

template <>
Decoded<MarkSyncedRequest> decode<MarkSyncedRequest>(ByteView bytes) {
  Reader in(bytes);
  MarkSyncedRequest m;
  m.partition = in.u32();
  m.key = read_key(in, /*may_be_empty=*/true);
  m.floor = in.u64();
  return finish(in, std::move(m), "MARK_SYNCED");
}

void encode(const RaiseFloorRequest& m, std::string& out) {
  Writer w(out);
  w.u32(m.partition);
  w.u64(m.floor);
}

template <>
Decoded<RaiseFloorRequest> decode<RaiseFloorRequest>(ByteView bytes) {
  Reader in(bytes);
  RaiseFloorRequest m;
  m.partition = in.u32();
  m.floor = in.u64();
  return finish(in, m, "RAISE_FLOOR");
}

void encode(const DropTombstonesRequest& m, std::string& out) {
  Writer w(out);
  w.u32(m.partition);
  w.u32(static_cast<uint32_t>(m.tombstones.size()));
  for (const auto& tombstone : m.tombstones) {
    w.short_string(tombstone.key);
    w.u64(tombstone.version);
  }
}

template <>
Decoded<DropTombstonesRequest> decode<DropTombstonesRequest>(ByteView bytes) {
  Reader in(bytes);
  DropTombstonesRequest m;
  m.partition = in.u32();
  using Entry = DropTombstonesRequest::Entry;
  m.tombstones = read_list<Entry>(in, kTombstoneBytes, [&](Entry& tombstone) {
    tombstone.key = read_key(in);
    tombstone.version = in.u64();
  });
  return finish(in, std::move(m), "DROP_TOMBSTONES");
}

void encode(const ShardWriteRequest& m, std::string& out) { encode(m.header, out); }

template <>
Decoded<ShardWriteRequest> decode<ShardWriteRequest>(ByteView bytes) {
  Reader in(bytes);
  auto header = decode_shard_header(in);
  if (!header) return std::unexpected(std::move(header.error()));
  return finish(in, ShardWriteRequest{std::move(*header)}, "SHARD_WRITE");
}

void encode(const ShardWriteReply& m, std::string& out) { Writer(out).u32(m.crc32c); }

template <>
Decoded<ShardWriteReply> decode<ShardWriteReply>(ByteView bytes) {
  Reader in(bytes);
  const ShardWriteReply m{in.u32()};
  return finish(in, m, "SHARD_WRITE reply");
}

void encode(const ShardBuildRequest& m, std::string& out) {
  encode(m.source, out);
  encode(m.header, out);
  Writer w(out);
  w.u32(m.block_bytes);
  w.u16(static_cast<uint16_t>(m.blocks.size()));
  for (const auto& block : m.blocks) {
    write_numbers(w, block.old);
    write_numbers(w, block.deltas);
  }
}

template <>
Decoded<ShardBuildRequest> decode<ShardBuildRequest>(ByteView bytes) {
  Reader in(bytes);
  ShardBuildRequest m;
  m.source = decode_name(in);
  auto header = decode_shard_header(in);
  if (!header) return std::unexpected(std::move(header.error()));
  m.header = std::move(*header);
  m.block_bytes = in.u32();
  const size_t blocks = in.count<uint16_t>(2 * sizeof(uint16_t));
  if (blocks > kMaxShardBlocks) in.fail();
  m.blocks.resize(in.ok() ? blocks : 0);
  for (auto& block : m.blocks) {
    block.old = read_numbers(in);
    block.deltas = read_numbers(in);
    // Else one frame could name a block any number of times.
    if (!is_set(block.old) || !is_set(block.deltas)) in.fail();
  }
  return finish(in, std::move(m), "SHARD_BUILD");
}

void encode(const ShardReadRequest& m, std::string& out) {
  encode(m.name, out);
  Writer w(out);
  w.u32(m.offset);
  w.u32(m.length);
}

template <>
Decoded<ShardReadRequest> decode<ShardReadRequest>(ByteView bytes) {
  Reader in(bytes);
  ShardReadRequest m;
  m.name = decode_name(in);
  m.offset = in.u32();
  m.length = in.u32();
  return finish(in, m, "SHARD_READ");
}

void encode(const ShardConfirmRequest& m, std::string& out) {
  Writer w(out);
  write_names(w, out, m.names);
  w.u8(m.check_pages);
}

template <>
Decoded<ShardConfirmRequest> decode<ShardConfirmRequest>(ByteView bytes) {
  Reader in(bytes);
  ShardConfirmRequest m;
  m.names = read_names(in);
  m.check_pages = read_flag(in);
  return finish(in, std::move(m), "SHARD_CONFIRM");
}

void encode(const ShardConfirmReply& m, std::string& out) {
  Writer w(out);
  w.u32(static_cast<uint32_t>(m.entries.size()));
  for (const auto& entry : m.entries) {
    w.u8(entry.present);
    w.u32(entry.crc32c);
    w.u32(entry.payload_bytes);
  }
}

template <>
Decoded<ShardConfirmReply> decode<ShardConfirmReply>(ByteView bytes) {
  Reader in(bytes);
  ShardConfirmReply m;
  using Entry = ShardConfirmReply::Entry;
  m.entries = read_list<Entry>(in, kConfirmEntryBytes, [&](Entry& entry) {
    entry.present = read_flag(in);
    entry.crc32c = in.u32();
    entry.payload_bytes = in.u32();
  });
  return finish(in, std::move(m), "SHARD_CONFIRM reply");
}

void encode(const ShardDeleteRequest& m, std::string& out) {
  Writer w(out);
  w.u32(m.after_ms);
  write_names(w, out, m.names);
}

template <>
Decoded<ShardDeleteRequest> decode<ShardDeleteRequest>(ByteView bytes) {
  Reader in(bytes);
  ShardDeleteRequest m;
  m.after_ms = in.u32();
  m.names = read_names(in);
  return finish(in, std::move(m), "SHARD_DELETE");
}

void encode(const ShardDeleteReply& m, std::string& out) { Writer(out).u32(m.deleted); }

template <>
Decoded<ShardDeleteReply> decode<ShardDeleteReply>(ByteView bytes) {
  Reader in(bytes);
  const ShardDeleteReply m{in.u32()};
  return finish(in, m, "SHARD_DELETE reply");
}

void encode(const ShardScanRequest& m, std::string& out) {
  Writer w(out);
  w.u64(m.cursor);
  w.u32(m.max_entries);
  w.u32(m.min_age_ms);
  write_bits(w, m.partitions);
}

template <>
Decoded<ShardScanRequest> decode<ShardScanRequest>(ByteView bytes) {
  Reader in(bytes);
  ShardScanRequest m;
  m.cursor = in.u64();
  m.max_entries = in.u32();
  m.min_age_ms = in.u32();
  m.partitions = read_bits(in);
  return finish(in, std::move(m), "SHARD_SCAN");
}

void encode(const ShardScanReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.cursor);
  w.u32(static_cast<uint32_t>(m.shards.size()));
  for (const ScannedShard& shard : m.shards) {
    encode(shard.name, out);
    w.short_string(shard.key);
    w.u64(shard.age_ms);
    w.u32(shard.payload_bytes);
  }
}

template <>
Decoded<ShardScanReply> decode<ShardScanReply>(ByteView bytes) {
  Reader in(bytes);
  ShardScanReply m;
  m.cursor = in.u64();
  m.shards = read_list<ScannedShard>(in, kScannedShardBytes, [&](ScannedShard& shard) {
    shard.name = decode_name(in);
    shard.key = read_key(in);
    shard.age_ms = in.u64();
    shard.payload_bytes = in.u32();
  });
  return finish(in, std::move(m), "SHARD_SCAN reply");
}

}  // namespace elastripe::node
