// Names and headers of shards. docs/node-protocol.md, "Shards".
#pragma once

#include <vector>

#include "server-patches/node/format/record.h"

namespace elastripe::node {

inline constexpr uint32_t kPageBytes = 4096;  // grain of checksums, later of differential pages

// A shard is immutable and named globally: the name is never used for other bytes.
struct ShardName {
  // The transaction that wrote it: a PUT, a transition (parity shards only), or a try to rebuild or
  // move this one shard (MovedShard).
  Id128 txid;
  uint32_t segment = 0;
  uint32_t generation = 0;  // parity: how many transitions the segment had seen; data: 0
  uint8_t index = 0;        // 0..k'-1 data, k'..k'+m-1 parity
  friend bool operator==(const ShardName&, const ShardName&) = default;
  friend auto operator<=>(const ShardName&, const ShardName&) = default;
};
inline constexpr size_t kShardNameBytes = 25;

// What a shard's item starts with; the page checksums and the bytes follow in the item.
// `lsn` and `vector_a` are for partial updates and are zero until those exist (rules 10-22).
struct ShardHeader {
  ShardName name;
  std::string key;  // the owning object: reclaim looks its record up
  uint32_t payload_bytes = 0;
  uint64_t lsn = 0;
  std::vector<uint64_t> vector_a = {};  // parity: LSN included per data shard
  friend bool operator==(const ShardHeader&, const ShardHeader&) = default;
};

void encode(const ShardName& name, std::string& out);
ShardName decode_name(Reader& in);  // check in.ok()
void encode(const ShardHeader& header, std::string& out);
Decoded<ShardHeader> decode_shard_header(Reader& in);

}  // namespace elastripe::node
