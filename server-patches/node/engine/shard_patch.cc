// SHARD_PATCH: the nodes' part of folding updates into shards, which are immutable: a changed one
// is a new one. docs/node-protocol.md, "Shards".
#include <algorithm>
#include <vector>

#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/impl.h"

namespace elastripe::node {
namespace {

using Extent = ShardPatchRequest::Extent;

// Why the request does not fit its payload, or that is not what was sent; or nothing.
std::optional<std::string_view> check_extents(const ShardPatchRequest& request, ByteView payload) {
  for (const Extent& extent : request.extents) {
    if (size_t{extent.offset} + extent.length > request.header.payload_bytes) {
      return "an extent is beyond the shard's end";
    }
    if (extent.length > payload.size()) return "the payload is too short for the extents";
    if (crc32c(payload.first(extent.length)) != extent.crc32c) {
      return "the checksum of an extent does not match";
    }
    payload = payload.subspan(extent.length);
  }
  if (!payload.empty()) return "the payload is too long for the extents";
  return std::nullopt;
}

// Those with bytes of the extents, ascending.
std::vector<size_t> pages_of(const std::vector<Extent>& extents) {
  std::vector<size_t> pages;
  size_t next = 0;  // the first that is not among them yet
  for (const Extent& extent : extents) {
    const size_t end = page_count(size_t{extent.offset} + extent.length);
    for (next = std::max<size_t>(next, extent.offset / kPageBytes); next < end; ++next) {
      pages.push_back(next);
    }
  }
  return pages;
}

uint32_t page_checksum(ByteView payload, size_t page) {
  const size_t begin = page * kPageBytes;
  return crc32c(payload.subspan(begin, std::min<size_t>(kPageBytes, payload.size() - begin)));
}

void add(MutableByteView to, ByteView bytes) {
  std::byte* const out = to.data();
  const std::byte* const in = bytes.data();
  for (size_t i = 0; i < to.size(); ++i) out[i] ^= in[i];
}

}  // namespace

Answer Engine::Impl::shard_patch(const Context& c, const ShardPatchRequest& request) {
  const ByteView given = c.frame.payload;
  if (auto wrong = check_extents(request, given)) return refuse(Status::kInvalid, *wrong);
  const FoundShard source = find_shard(request.source);
  if (!source.item) return refuse(Status::kNotHere, "no such shard");
  if (source.layout.header.payload_bytes != request.header.payload_bytes) {
    return refuse(Status::kInvalid, "the shard's length is not the source's");
  }
  OwnedBytes patched(request.header.payload_bytes);
  store_.read(source.item, source.layout.payload_at, patched.bytes());
  std::vector<uint32_t> checksums =
      read_checksums(store_, source.item, source.layout, 0, page_count(patched.size()));
  const std::vector<size_t> pages = pages_of(request.extents);
  for (const size_t page : pages) {
    if (page_checksum(patched.bytes(), page) == checksums[page]) continue;
    ++counters_.bad_pages;
    return refuse(Status::kBadPage, "a page's checksum does not match");
  }

  const bool writes = request.mode == ShardPatchMode::kWrite;
  OwnedBytes deltas(writes ? given.size() : 0);
  size_t at = 0;
  for (const Extent& extent : request.extents) {
    const MutableByteView place = patched.bytes().subspan(extent.offset, extent.length);
    const ByteView bytes = given.subspan(at, extent.length);
    if (writes) {
      const MutableByteView delta = deltas.bytes().subspan(at, extent.length);
      std::ranges::copy(place, delta.begin());
      add(delta, bytes);
      std::ranges::copy(bytes, place.begin());
    } else {
      add(place, bytes);
    }
    at += extent.length;
  }
  for (const size_t page : pages) checksums[page] = page_checksum(patched.bytes(), page);
  Answer stored = store_shard(c, request.header, patched.bytes(), checksums);
  if (stored.status == Status::kOk) stored.payload = std::move(deltas);
  return stored;
}

}  // namespace elastripe::node
