// Calls of SHARD_UPDATE, to one shard of one node.
#pragma once

#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/item_formats.h"
#include "server-patches/node/format/shard_update_messages.h"
#include "tests/unit/node/log_fixture.h"

namespace elastripe::node::test {

using Mode = ShardUpdateMode;

inline const ShardName kShard{{11, 12}, 3, 0, 1};

inline std::string pattern(size_t bytes, uint64_t salt = 0) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 7 + i / 256 + salt);
  return out;
}
inline std::string sum(std::string_view a, std::string_view b) {
  std::string out(a);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(a[i] ^ b.at(i));
  return out;
}

inline void write(TestNode& node, std::string_view bytes) {
  const ShardWriteRequest request{
      {.name = kShard, .key = "owner", .payload_bytes = static_cast<uint32_t>(bytes.size())}};
  REQUIRE(status(node.send(Opcode::kShardWrite, encoded(request), bytes)) == "OK");
}
inline std::string read(TestNode& node) {
  const Reply reply = node.send(Opcode::kShardRead, encoded(ShardReadRequest{kShard, 0, 0}));
  return status(reply) == "OK" ? payload_of(reply) : status(reply);
}
// As it lies in the item, whatever a log has for it.
inline std::string stored(TestNode& node, const ItemRef& item) {
  const auto layout = read_shard_item(node.store, item);
  REQUIRE(layout);
  std::string bytes(layout->header.payload_bytes, '\0');
  node.store.read(item, layout->payload_at, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}
inline std::string stored(TestNode& node) {
  return stored(node, node.store.find(shard_item_key(kShard)));
}

struct Change {
  uint32_t offset;
  std::string bytes;
};
inline Reply update(TestNode& node, Mode mode, const std::vector<Change>& changes,
                    uint32_t log_bytes = 0, std::string coefficients = {}) {
  ShardUpdateRequest request{kShard, mode, log_bytes, {}, std::move(coefficients)};
  std::string payload;
  for (const Change& change : changes) {
    request.extents.push_back(
        {change.offset, static_cast<uint32_t>(change.bytes.size()), crc32c(as_view(change.bytes))});
    payload += change.bytes;
  }
  return node.send(Opcode::kShardUpdate, encoded(request), payload);
}

}  // namespace elastripe::node::test
