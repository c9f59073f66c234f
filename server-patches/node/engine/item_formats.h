// How records and shards lie in items. docs/node-protocol.md, "Items".
//
//   record item: key '\x01' + object key;  value  prefix (20) | record | padding
//   shard item:  key '\x02' + shard name;  value  prefix (12) | ShardHeader | page checksums |
//   bytes, or, of a shard that was made out of another one,  prefix (12) | ShardHeader | its place
//   in a body (shard_bodies.h)
//
// The prefixes are the node's own; nobody else sees them.
#pragma once

#include <array>
#include <optional>

#include "server-patches/node/engine/shard_bodies.h"
#include "server-patches/node/format/record.h"
#include "server-patches/node/format/shard.h"
#include "server-patches/node/store/item_store.h"

namespace elastripe::node {

inline constexpr char kRecordTag = '\x01';
inline constexpr char kShardTag = '\x02';

struct RecordItemPrefix {
  uint32_t tenure = 0;  // "Synced": under which tenure of the partition it was stored
  uint32_t record_bytes = 0;
  uint32_t written_s = 0;  // the node's boottime when the item was linked, rounded up
  uint32_t synced_in = 0;  // number of the epoch in which the key was synced by itself, 0: none
  // The record's, which starts with it.
  uint64_t version = 0;
  // The item's key and the other fields match the checksum. Else they mean
  // nothing, and record_bytes is 0; the version is what it was if just one bit has changed, else 0.
  bool is_intact = true;
};
inline constexpr size_t kRecordPrefixBytes = 20;

// The item's key of a record: of an object key of at most kMaxKeyBytes.
class RecordItemKey {
 public:
  explicit RecordItemKey(std::string_view key);
  operator std::string_view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, 1 + kMaxKeyBytes> bytes_;
  size_t size_;
};
inline RecordItemKey record_item_key(std::string_view key) { return RecordItemKey(key); }
// Bytes of the item's value: for a live record never less than a tombstone with one more attempt
// takes, so that a DELETE fits in place of what it replaces ("Memory").
size_t record_item_bytes(const Record& record, size_t record_bytes);
// With the checksum of the prefix, of the version and of the key that its item has, so that a
// damaged record's version is known in most cases. The record has checksums of its own.
void encode(const RecordItemPrefix& prefix, std::string_view item_key, std::string& out);
RecordItemPrefix read_record_prefix(const ItemStore& store, const ItemRef& item);

struct ShardItem {
  uint64_t written_ms = 0;  // the node's boottime
  ShardHeader header;
  std::optional<BodyVersion> version;  // where the checksums and bytes are, if not in the item
  size_t checksums_at = 0;             // offsets in the value, if they are
  size_t payload_at = 0;
};
std::string shard_item_key(const ShardName& name);
// The value up to the checksums.
std::string shard_item_head(uint64_t written_ms, const ShardHeader& header);
// The whole value of an item whose bytes are in a body.
std::string shard_item_value(uint64_t written_ms, const ShardHeader& header,
                             const BodyVersion& version);
Decoded<ShardItem> read_shard_item(const ItemStore& store, const ItemRef& item);
// The checksums of `count` pages from page `first` on, as stored in the item.
std::vector<uint32_t> read_checksums(const ItemStore& store, const ItemRef& item,
                                     const ShardItem& layout, size_t first, size_t count);

}  // namespace elastripe::node
