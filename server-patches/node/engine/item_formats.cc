#include "server-patches/node/engine/item_formats.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::node {
namespace {

constexpr size_t kShardPrefixBytes = 12;
// In the prefix of a shard's item, beside the length of its header: the bytes are in a body.
constexpr uint32_t kInBody = 1u << 31;
// body u64 | serial u64 | checksum u32 of both and of the item's key.
constexpr size_t kBodyVersionBytes = 20;

uint32_t body_version_checksum(std::string_view item_key, const BodyVersion& version) {
  std::string covered(item_key);
  Writer w(covered);
  w.u64(version.body);
  w.u64(version.serial);
  return crc32c(as_view(covered));
}

// In the prefix of a record's item, which is 0 while its checksum is computed.
constexpr size_t kChecksumAt = 8;

constexpr size_t kCoveredBytes = kRecordPrefixBytes + sizeof(uint64_t);  // with the version

// `covered`: the prefix and the version. They are put behind the key, as one long piece is faster
// than several short ones.
uint32_t prefix_checksum(std::string_view item_key,
                         std::span<const std::byte, kCoveredBytes> covered) {
  std::array<std::byte, 1 + kMaxKeyBytes + kCoveredBytes> bytes;
  const ByteView key = as_view(item_key.substr(0, 1 + kMaxKeyBytes));  // longer ones are no key
  std::byte* const end = std::ranges::copy(key, bytes.begin()).out;
  std::byte* const behind = std::ranges::copy(covered, end).out;
  std::fill_n(end + kChecksumAt, sizeof(uint32_t), std::byte{0});
  return crc32c(ByteView(bytes.begin(), behind));
}

// What the version was, if just one bit of `covered` has changed: changed back, it matches.
uint64_t mended_version(std::string_view item_key, std::array<std::byte, kCoveredBytes> covered) {
  const auto at = [&](size_t offset) { return Reader(ByteView(covered).subspan(offset)); };
  for (size_t bit = 0; bit < covered.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1u << bit % 8);
    covered[bit / 8] ^= mask;
    if (prefix_checksum(item_key, covered) == at(kChecksumAt).u32()) {
      return at(kRecordPrefixBytes).u64();
    }
    covered[bit / 8] ^= mask;
  }
  return 0;
}

}  // namespace

RecordItemKey::RecordItemKey(std::string_view key) : size_(1 + key.size()) {
  if (key.size() > kMaxKeyBytes) std::abort();  // decoders refuse it
  bytes_[0] = kRecordTag;
  std::memcpy(bytes_.data() + 1, key.data(), key.size());
}

size_t record_item_bytes(const Record& record, size_t record_bytes) {
  if (record.is_tombstone()) return kRecordPrefixBytes + record_bytes;
  const size_t attempts = std::min(record.meta.recent.size() + 1, kRecentAttempts);
  const size_t tombstone_bytes = kMetaBytes + kAttemptBytes * attempts + kTombstoneContentBytes;
  return kRecordPrefixBytes + std::max(record_bytes, tombstone_bytes);
}

void encode(const RecordItemPrefix& prefix, std::string_view item_key, std::string& out) {
  const size_t begin = out.size();
  Writer w(out);
  w.u32(prefix.tenure);
  w.u32(prefix.record_bytes);
  w.u32(0);
  w.u32(prefix.written_s);
  w.u32(prefix.synced_in);
  w.u64(prefix.version);
  const uint32_t crc =
      little_endian(prefix_checksum(item_key, as_view(out).subspan(begin).first<kCoveredBytes>()));
  std::memcpy(out.data() + begin + kChecksumAt, &crc, sizeof(crc));
  out.resize(begin + kRecordPrefixBytes);  // the version is the record's
}

RecordItemPrefix read_record_prefix(const ItemStore& store, const ItemRef& item) {
  std::array<std::byte, kCoveredBytes> raw;
  RecordItemPrefix prefix{.is_intact = false};
  const size_t value_bytes = store.value_bytes(item);
  if (value_bytes < raw.size()) return prefix;
  store.read(item, 0, raw);
  Reader in(raw);
  prefix.tenure = in.u32();
  const uint32_t record_bytes = in.u32();
  const bool matches = prefix_checksum(store.key(item), raw) == in.u32();
  prefix.written_s = in.u32();
  // What lies behind the item is never read, whatever was overwritten.
  prefix.is_intact =
      (matches || mutant(Mutant::kTrustBytes)) && record_bytes <= value_bytes - kRecordPrefixBytes;
  const uint32_t synced_in = in.u32();
  if (prefix.is_intact) {
    prefix.record_bytes = record_bytes;
    prefix.synced_in = synced_in;
    prefix.version = in.u64();
  } else {
    prefix.version = mended_version(store.key(item), raw);
  }
  return prefix;
}

std::string shard_item_key(const ShardName& name) {
  std::string item_key(1, kShardTag);
  encode(name, item_key);
  return item_key;
}

namespace {

std::string shard_item_head(uint64_t written_ms, const ShardHeader& header, uint32_t marks) {
  std::string encoded_header;
  encode(header, encoded_header);
  std::string head;
  Writer w(head);
  w.u64(written_ms);
  w.u32(static_cast<uint32_t>(encoded_header.size()) | marks);
  w.raw(encoded_header);
  return head;
}

}  // namespace

std::string shard_item_head(uint64_t written_ms, const ShardHeader& header) {
  return shard_item_head(written_ms, header, 0);
}

std::string shard_item_value(uint64_t written_ms, const ShardHeader& header,
                             const BodyVersion& version) {
  std::string value = shard_item_head(written_ms, header, kInBody);
  Writer w(value);
  w.u64(version.body);
  w.u64(version.serial);
  w.u32(body_version_checksum(shard_item_key(header.name), version));
  return value;
}

Decoded<ShardItem> read_shard_item(const ItemStore& store, const ItemRef& item) {
  const size_t value_bytes = store.value_bytes(item);
  std::array<std::byte, kShardPrefixBytes> raw;
  if (value_bytes < raw.size()) return std::unexpected("stored shard is cut off");
  store.read(item, 0, raw);
  Reader prefix(raw);
  ShardItem shard;
  shard.written_ms = prefix.u64();
  const uint32_t marked_bytes = prefix.u32();
  const size_t header_bytes = marked_bytes & ~kInBody;
  if (header_bytes > value_bytes - raw.size()) return std::unexpected("stored shard is cut off");
  std::string encoded(header_bytes, '\0');
  store.read(item, raw.size(), std::as_writable_bytes(std::span(encoded)));
  Reader in(as_view(encoded));
  auto header = decode_shard_header(in);
  if (!header) return std::unexpected(std::move(header.error()));
  shard.header = std::move(*header);
  shard.checksums_at = raw.size() + header_bytes;
  if ((marked_bytes & kInBody) != 0) {
    std::array<std::byte, kBodyVersionBytes> place;
    if (shard.checksums_at + place.size() != value_bytes) {
      return std::unexpected("stored shard has a wrong length");
    }
    store.read(item, shard.checksums_at, place);
    Reader version(place);
    const uint64_t body = version.u64();
    shard.version = BodyVersion{body, version.u64()};
    // Another body's bytes would match their own checksums.
    if (version.u32() != body_version_checksum(store.key(item), *shard.version)) {
      return std::unexpected("stored shard's place does not match its checksum");
    }
    return shard;
  }
  shard.payload_at = shard.checksums_at + page_count(shard.header.payload_bytes) * sizeof(uint32_t);
  if (shard.payload_at + shard.header.payload_bytes != value_bytes) {
    return std::unexpected("stored shard has a wrong length");
  }
  return shard;
}

std::vector<uint32_t> read_checksums(const ItemStore& store, const ItemRef& item,
                                     const ShardItem& layout, size_t first, size_t count) {
  std::vector<uint32_t> checksums(count);
  store.read(item, layout.checksums_at + first * sizeof(uint32_t),
             std::as_writable_bytes(std::span(checksums)));
  return checksums;
}

}  // namespace elastripe::node
