// SHARD_BUILD: the parity node's part of a transition (execution `delta`): old parities never cross
// the network. docs/node-protocol.md, "Shards".
#include <algorithm>
#include <span>
#include <vector>

#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/impl.h"

namespace elastripe::node {
namespace {

// sum = the XOR of all terms, which have its size; zeros of none.
void add_up(MutableByteView sum, std::span<const ByteView> terms) {
  if (terms.empty()) {
    std::ranges::fill(sum, std::byte{0});
    return;
  }
  std::ranges::copy(terms.front(), sum.begin());
  std::byte* const out = sum.data();
  for (const ByteView term : terms.subspan(1)) {
    const std::byte* const in = term.data();
    for (size_t i = 0; i < sum.size(); ++i) out[i] ^= in[i];
  }
}

// Why the request does not fit its payload and a source of `source_bytes`, or nothing.
std::optional<std::string_view> check_sizes(const ShardBuildRequest& request, size_t payload_bytes,
                                            size_t source_bytes) {
  const size_t block_bytes = request.block_bytes;
  if (block_bytes == 0 || payload_bytes % block_bytes != 0) {
    return "the payload is not a whole number of blocks";
  }
  if (request.blocks.empty() || block_bytes > kMaxBodyBytes ||
      request.header.payload_bytes != request.blocks.size() * block_bytes ||
      request.header.payload_bytes > kMaxBodyBytes) {
    return "the shard's length does not match its blocks";
  }
  for (const auto& block : request.blocks) {
    for (const uint16_t old : block.old) {
      if ((old + size_t{1}) * block_bytes > source_bytes) return "the source has no such block";
    }
    for (const uint16_t delta : block.deltas) {
      if ((delta + size_t{1}) * block_bytes > payload_bytes) return "the payload has no such block";
    }
  }
  return std::nullopt;
}

}  // namespace

Answer Engine::Impl::shard_build(const Context& c, const ShardBuildRequest& request) {
  const FoundShard source = find_shard(request.source);
  if (!source.is_whole) return refuse(Status::kNotHere, "no such shard");
  const size_t source_bytes = source.layout.header.payload_bytes;
  const ByteView deltas = c.frame.payload;
  if (auto wrong = check_sizes(request, deltas.size(), source_bytes)) {
    return refuse(Status::kInvalid, *wrong);
  }
  const bool uses_old =
      std::ranges::any_of(request.blocks, [](const auto& block) { return !block.old.empty(); });
  OwnedBytes old(uses_old ? source_bytes : 0);
  if (uses_old) {
    read_bytes(source, 0, old.bytes());
    if (page_checksums(old.bytes()) != checksums(source, 0, page_count(source_bytes))) {
      return refuse_bad_page();
    }
  }

  const size_t block_bytes = request.block_bytes;
  OwnedBytes built(request.header.payload_bytes);
  std::vector<ByteView> terms;
  for (size_t b = 0; b < request.blocks.size(); ++b) {
    terms.clear();
    for (const uint16_t number : request.blocks[b].old) {
      terms.push_back(ByteView(old.bytes()).subspan(number * block_bytes, block_bytes));
    }
    for (const uint16_t number : request.blocks[b].deltas) {
      terms.push_back(deltas.subspan(number * block_bytes, block_bytes));
    }
    add_up(built.bytes().subspan(b * block_bytes, block_bytes), terms);
  }
  return store_shard(c, request.header, built.bytes());
}

}  // namespace elastripe::node
