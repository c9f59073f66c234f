#include "server-patches/node/format/sync_messages.h"

#include <algorithm>
#include <functional>
#include <ranges>

#include "server-patches/node/format/message_parts.h"

namespace elastripe::node {
namespace {

// The least that an element of a list takes on the wire.
constexpr size_t kScannedRecordBytes = kKeyBytes + 4;
constexpr size_t kCommitBytes = 24;
constexpr size_t kScannedVersionBytes = kKeyBytes + kCommitBytes + 2;
constexpr size_t kFloorBytes = 12;
constexpr size_t kTombstoneBytes = kKeyBytes + 8;

void write_commit(Writer& w, const CommitName& commit) {
  w.u64(commit.version);
  w.u64(commit.attempt_id.hi);
  w.u64(commit.attempt_id.lo);
}

// The places of those that have a log; nothing if none has.
void write_logs(Writer& w, const std::vector<ScannedVersion>& versions) {
  const auto logs = std::ranges::count_if(versions, &ScannedVersion::has_log);
  if (logs == 0) return;
  w.u32(static_cast<uint32_t>(logs));
  for (size_t i = 0; i < versions.size(); ++i) {
    if (versions[i].has_log) w.u32(static_cast<uint32_t>(i));
  }
}

void read_logs(Reader& in, std::vector<ScannedVersion>& versions) {
  size_t next = 0;
  for (size_t left = in.count<uint32_t>(sizeof(uint32_t)); left > 0; --left) {
    const size_t at = in.u32();
    if (at < next || at >= versions.size()) return in.fail();
    versions[at].has_log = true;
    next = at + 1;
  }
}

CommitName read_commit(Reader& in) {
  CommitName commit;
  commit.version = in.u64();
  commit.attempt_id.hi = in.u64();
  commit.attempt_id.lo = in.u64();
  return commit;
}

}  // namespace

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
  write_logs(w, m.versions);
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
  if (!in.at_end()) read_logs(in, m.versions);
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

}  // namespace elastripe::node
