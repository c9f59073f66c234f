// Where the bytes of a stored shard lie, for tests that look at them or damage them.
#pragma once

#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/item_formats.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {

struct StoredShard {
  ItemRef item;  // of the shard, or of its body
  size_t checksums_at = 0;
  size_t payload_at = 0;
  size_t payload_bytes = 0;
};

inline StoredShard stored_shard(TestNode& node, const ShardName& name) {
  StoredShard shard{.item = node.store.find(shard_item_key(name))};
  const auto layout = read_shard_item(node.store, shard.item);
  REQUIRE(layout);
  shard.payload_bytes = layout->header.payload_bytes;
  shard.checksums_at = layout->checksums_at;
  shard.payload_at = layout->payload_at;
  if (!layout->version) return shard;
  std::string body_key(1, '\x04');
  Writer(body_key).u64(layout->version->body);
  shard.item = node.store.find(body_key);
  REQUIRE(shard.item);
  shard.payload_at = node.store.value_bytes(shard.item) - shard.payload_bytes;
  shard.checksums_at = shard.payload_at - page_count(shard.payload_bytes) * sizeof(uint32_t);
  return shard;
}

inline std::vector<uint32_t> stored_checksums(TestNode& node, const ShardName& name) {
  const StoredShard shard = stored_shard(node, name);
  std::vector<uint32_t> checksums(page_count(shard.payload_bytes));
  node.store.read(shard.item, shard.checksums_at, std::as_writable_bytes(std::span(checksums)));
  return checksums;
}

// Flips a bit of the stored payload, as bad memory would.
inline void damage(TestNode& node, const ShardName& name, size_t offset) {
  const StoredShard shard = stored_shard(node, name);
  std::byte byte;
  node.store.read(shard.item, shard.payload_at + offset, {&byte, 1});
  byte ^= std::byte{4};
  node.store.write(shard.item, shard.payload_at + offset, {&byte, 1});
}

}  // namespace elastripe::node::test
