// SHARD_FINGERPRINT: the nodes' part of a scrub, in which no byte of a shard crosses the network.
// docs/node-protocol.md, "Shards".
#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/impl.h"

namespace elastripe::node {

void Engine::Impl::add_fingerprints(const FoundShard& found, uint32_t block_bytes,
                                    const coding::Fingerprinter& fingerprinter,
                                    ShardFingerprintReply& reply) {
  const uint32_t payload_bytes = found.layout.header.payload_bytes;
  ShardFingerprintReply::Entry& entry = reply.entries.emplace_back(ShardHealth::kBad);
  const uint32_t blocks = payload_bytes / block_bytes;
  if (payload_bytes % block_bytes != 0 || blocks == 0 || blocks > kMaxShardBlocks) return;
  OwnedBytes payload(payload_bytes);
  read_bytes(found, 0, payload.bytes());
  if (page_checksums(payload.bytes()) != checksums(found, 0, page_count(payload_bytes))) {
    ++counters_.bad_pages;
    return;
  }
  entry = {ShardHealth::kIntact, static_cast<uint8_t>(blocks)};
  for (ByteView rest = payload.bytes(); !rest.empty(); rest = rest.subspan(block_bytes)) {
    const ByteView block = rest.first(block_bytes);
    reply.blocks.push_back({crc32c(block), fingerprinter.of(block)});
  }
}

Answer Engine::Impl::shard_fingerprint(const Context&, const ShardFingerprintRequest& request) {
  if (request.shards.size() > kMaxListEntries) return refuse(Status::kInvalid, "too many names");
  for (const auto& shard : request.shards) {
    if (shard.block_bytes == 0) return refuse(Status::kInvalid, "blocks of no bytes");
  }
  const coding::Fingerprinter fingerprinter(request.seed);
  ShardFingerprintReply reply;
  size_t bytes = 0;
  for (const auto& shard : request.shards) {
    const FoundShard found = find_shard(shard.name);
    if (!found.is_whole) {
      reply.entries.emplace_back(ShardHealth::kNotHere);
      continue;
    }
    bytes += found.layout.header.payload_bytes;
    if (bytes > options_.confirm_bytes && !reply.entries.empty()) break;
    add_fingerprints(found, shard.block_bytes, fingerprinter, reply);
  }
  return answer(Status::kOk, reply);
}

}  // namespace elastripe::node
