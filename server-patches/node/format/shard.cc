#include "server-patches/node/format/shard.h"

namespace elastripe::node {

void encode(const ShardName& name, std::string& out) {
  Writer w(out);
  w.id(name.txid);
  w.u32(name.segment);
  w.u32(name.generation);
  w.u8(name.index);
}

ShardName decode_name(Reader& in) {
  ShardName name;
  name.txid = in.id();
  name.segment = in.u32();
  name.generation = in.u32();
  name.index = in.u8();
  return name;
}

void encode(const ShardHeader& header, std::string& out) {
  encode(header.name, out);
  Writer w(out);
  w.short_string(header.key);
  w.u32(header.payload_bytes);
  w.u64(header.lsn);
  w.u8(static_cast<uint8_t>(header.vector_a.size()));
  for (const uint64_t lsn : header.vector_a) w.u64(lsn);
}

Decoded<ShardHeader> decode_shard_header(Reader& in) {
  ShardHeader header;
  header.name = decode_name(in);
  header.key = in.short_string();
  header.payload_bytes = in.u32();
  header.lsn = in.u64();
  const size_t columns = in.count<uint8_t>(sizeof(uint64_t));
  if (!in.ok()) return std::unexpected("shard header is cut off");
  if (header.key.empty() || header.key.size() > kMaxKeyBytes) {
    return std::unexpected("shard header has a key of a bad length");
  }
  if (header.payload_bytes > kMaxBodyBytes) return std::unexpected("shard is too large");
  if (columns > coding::kMaxDataNodes) return std::unexpected("shard vector is too long");
  header.vector_a.reserve(columns);
  for (size_t i = 0; i < columns; ++i) header.vector_a.push_back(in.u64());
  return header;
}

}  // namespace elastripe::node
