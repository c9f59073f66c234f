#include "server-patches/node/engine/item_formats.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "server-patches/node/engine/checksum.h"

namespace elastripe::node {
namespace {

constexpr size_t kMetaBytes = 25;     // without attempts
constexpr size_t kAttemptBytes = 24;  // each
constexpr size_t kTombstoneContentBytes = 21;
constexpr size_t kShardPrefixBytes = 12;

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

void encode(const RecordItemPrefix& prefix, std::string& out) {
  Writer w(out);
  w.u32(prefix.tenure);
  w.u32(prefix.record_bytes);
}

RecordItemPrefix read_record_prefix(const ItemStore& store, const ItemRef& item,
                                    uint64_t* version) {
  std::array<std::byte, kRecordPrefixBytes + sizeof(uint64_t)> raw;
  store.read(item, 0, raw);
  Reader in(raw);
  RecordItemPrefix prefix;
  prefix.tenure = in.u32();
  // Where memory was overwritten, a decoder finds out; what lies behind the item is never read.
  prefix.record_bytes = static_cast<uint32_t>(
      std::min<size_t>(in.u32(), store.value_bytes(item) - kRecordPrefixBytes));
  if (version != nullptr) *version = in.u64();
  return prefix;
}

std::string shard_item_key(const ShardName& name) {
  std::string item_key(1, kShardTag);
  encode(name, item_key);
  return item_key;
}

std::string shard_item_head(uint64_t written_ms, const ShardHeader& header) {
  std::string encoded_header;
  encode(header, encoded_header);
  std::string head;
  Writer w(head);
  w.u64(written_ms);
  w.u32(static_cast<uint32_t>(encoded_header.size()));
  w.raw(encoded_header);
  return head;
}

Decoded<ShardItem> read_shard_item(const ItemStore& store, const ItemRef& item) {
  const size_t value_bytes = store.value_bytes(item);
  std::array<std::byte, kShardPrefixBytes> raw;
  if (value_bytes < raw.size()) return std::unexpected("stored shard is cut off");
  store.read(item, 0, raw);
  Reader prefix(raw);
  ShardItem shard;
  shard.written_ms = prefix.u64();
  const size_t header_bytes = prefix.u32();
  if (header_bytes > value_bytes - raw.size()) return std::unexpected("stored shard is cut off");
  std::string encoded(header_bytes, '\0');
  store.read(item, raw.size(), std::as_writable_bytes(std::span(encoded)));
  Reader in(as_view(encoded));
  auto header = decode_shard_header(in);
  if (!header) return std::unexpected(std::move(header.error()));
  shard.header = std::move(*header);
  shard.checksums_at = raw.size() + header_bytes;
  shard.payload_at = shard.checksums_at + page_count(shard.header.payload_bytes) * sizeof(uint32_t);
  if (shard.payload_at + shard.header.payload_bytes != value_bytes) {
    return std::unexpected("stored shard has a wrong length");
  }
  return shard;
}

}  // namespace elastripe::node
