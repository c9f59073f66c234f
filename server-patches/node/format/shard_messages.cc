#include "server-patches/node/format/shard_messages.h"

#include <algorithm>
#include <functional>

#include "server-patches/node/format/message_parts.h"

namespace elastripe::node {
namespace {

// The least that an element of a list takes on the wire.
constexpr size_t kPatchExtentBytes = 12;
constexpr size_t kConfirmEntryBytes = 9;
constexpr size_t kFingerprintEntryBytes = 2;
constexpr size_t kBlockFingerprintBytes = 4 + coding::kFingerprintBytes;
constexpr size_t kScannedShardBytes = kShardNameBytes + kKeyBytes + 12;

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

void write_names(Writer& w, std::string& out, const std::vector<ShardName>& names) {
  w.u32(static_cast<uint32_t>(names.size()));
  for (const ShardName& name : names) encode(name, out);
}

std::vector<ShardName> read_names(Reader& in) {
  return read_list<ShardName>(in, kShardNameBytes,
                              [&](ShardName& name) { name = decode_name(in); });
}

}  // namespace

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

void encode(const ShardPatchRequest& m, std::string& out) {
  encode(m.source, out);
  encode(m.header, out);
  Writer w(out);
  w.u8(static_cast<uint8_t>(m.mode));
  w.u32(static_cast<uint32_t>(m.extents.size()));
  for (const auto& extent : m.extents) {
    w.u32(extent.offset);
    w.u32(extent.length);
    w.u32(extent.crc32c);
  }
}

template <>
Decoded<ShardPatchRequest> decode<ShardPatchRequest>(ByteView bytes) {
  Reader in(bytes);
  ShardPatchRequest m;
  m.source = decode_name(in);
  auto header = decode_shard_header(in);
  if (!header) return std::unexpected(std::move(header.error()));
  m.header = std::move(*header);
  m.mode = read_enum(in, ShardPatchMode::kAdd);
  using Extent = ShardPatchRequest::Extent;
  uint64_t end = 0;  // of the one before
  m.extents = read_list<Extent>(in, kPatchExtentBytes, [&](Extent& extent) {
    extent.offset = in.u32();
    extent.length = in.u32();
    extent.crc32c = in.u32();
    // Else one frame could name a byte any number of times, or none.
    if (extent.length == 0 || extent.offset < end) in.fail();
    end = uint64_t{extent.offset} + extent.length;
  });
  return finish(in, std::move(m), "SHARD_PATCH");
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

void encode(const ShardFingerprintRequest& m, std::string& out) {
  Writer w(out);
  w.u64(m.seed.high);
  w.u64(m.seed.low);
  w.u32(static_cast<uint32_t>(m.shards.size()));
  for (const auto& shard : m.shards) {
    encode(shard.name, out);
    w.u32(shard.block_bytes);
  }
}

template <>
Decoded<ShardFingerprintRequest> decode<ShardFingerprintRequest>(ByteView bytes) {
  Reader in(bytes);
  ShardFingerprintRequest m;
  m.seed.high = in.u64();
  m.seed.low = in.u64();
  using Shard = ShardFingerprintRequest::Shard;
  m.shards = read_list<Shard>(in, kShardNameBytes + sizeof(uint32_t), [&](Shard& shard) {
    shard.name = decode_name(in);
    shard.block_bytes = in.u32();
  });
  return finish(in, std::move(m), "SHARD_FINGERPRINT");
}

void encode(const ShardFingerprintReply& m, std::string& out) {
  Writer w(out);
  w.u32(static_cast<uint32_t>(m.entries.size()));
  for (const auto& entry : m.entries) {
    w.u8(static_cast<uint8_t>(entry.health));
    w.u8(entry.blocks);
  }
  w.u32(static_cast<uint32_t>(m.blocks.size()));
  for (const BlockFingerprint& block : m.blocks) {
    w.u32(block.crc32c);
    for (const uint8_t byte : block.fingerprint) w.u8(byte);
  }
}

template <>
Decoded<ShardFingerprintReply> decode<ShardFingerprintReply>(ByteView bytes) {
  Reader in(bytes);
  ShardFingerprintReply m;
  using Entry = ShardFingerprintReply::Entry;
  size_t blocks = 0;
  m.entries = read_list<Entry>(in, kFingerprintEntryBytes, [&](Entry& entry) {
    entry.health = read_enum(in, ShardHealth::kIntact);
    entry.blocks = in.u8();
    blocks += entry.blocks;
  });
  m.blocks = read_list<BlockFingerprint>(in, kBlockFingerprintBytes, [&](BlockFingerprint& block) {
    block.crc32c = in.u32();
    for (uint8_t& byte : block.fingerprint) byte = in.u8();
  });
  if (m.blocks.size() != blocks) in.fail();
  return finish(in, std::move(m), "SHARD_FINGERPRINT reply");
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
