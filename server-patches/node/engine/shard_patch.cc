// SHARD_PATCH: the nodes' part of folding updates into shards. What a name stands for never
// changes: the bytes change under a new name, in place where they can, and an undo keeps what the
// old name stands for. docs/node-protocol.md, "Shards".
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

void add(MutableByteView to, ByteView bytes) {
  std::byte* const out = to.data();
  const std::byte* const in = bytes.data();
  for (size_t i = 0; i < to.size(); ++i) out[i] ^= in[i];
}

// Changes `bytes`, those of `pages` one after the other. What they were XOR what they are, where
// the request writes; nothing where it adds.
OwnedBytes apply(const ShardPatchRequest& request, ByteView given, const std::vector<size_t>& pages,
                 MutableByteView bytes) {
  const bool writes = request.mode == ShardPatchMode::kWrite;
  OwnedBytes deltas(writes ? given.size() : 0);
  size_t at = 0;
  for (const Extent& extent : request.extents) {
    const size_t page = extent.offset / kPageBytes;
    // All pages of an extent are there, so they are neighbours here as well.
    const auto place = static_cast<size_t>(std::ranges::lower_bound(pages, page) - pages.begin());
    const MutableByteView old =
        bytes.subspan(place * kPageBytes + extent.offset % kPageBytes, extent.length);
    const ByteView fresh = given.subspan(at, extent.length);
    if (writes) {
      const MutableByteView delta = deltas.bytes().subspan(at, extent.length);
      std::ranges::copy(old, delta.begin());
      add(delta, fresh);
      std::ranges::copy(fresh, old.begin());
    } else {
      add(old, fresh);
    }
    at += extent.length;
  }
  return deltas;
}

Answer answer_deltas(OwnedBytes deltas) {
  Answer result;
  result.payload = std::move(deltas);
  return result;
}

}  // namespace

Answer Engine::Impl::shard_patch(const Context& c, const ShardPatchRequest& request) {
  const ByteView given = c.frame.payload;
  if (auto wrong = check_extents(request, given)) return refuse(Status::kInvalid, *wrong);
  std::optional<BodyVersion> version;
  {
    const FoundShard source = find_shard(request.source);
    if (!source.is_whole) return refuse(Status::kNotHere, "no such shard");
    if (source.layout.header.payload_bytes != request.header.payload_bytes) {
      return refuse(Status::kInvalid, "the shard's length is not the source's");
    }
    version = source.layout.version;
  }  // what anybody refers to is not changed in place
  auto patched = version ? patch_in_place(c, request, *version) : std::nullopt;
  if (!patched) patched = patch_copy(c, request);
  if (patched->status == Status::kOk) {
    ++counters_.shard_changes;
    counters_.shard_changed_bytes += given.size();
  }
  return std::move(*patched);
}

std::optional<Answer> Engine::Impl::patch_in_place(const Context& c,
                                                   const ShardPatchRequest& request,
                                                   const BodyVersion& from) {
  const std::string item_key = shard_item_key(request.header.name);
  const Latch held = latch(hash_key(item_key));
  if (store_.find(item_key)) return std::nullopt;
  const std::vector<size_t> pages = pages_of(request.extents);
  OwnedBytes deltas;
  const auto change = [&](MutableByteView bytes) {
    deltas = apply(request, c.frame.payload, pages, bytes);
  };
  BodyVersion made;
  // First what may lack room: a frame that has begun to patch can not begin again.
  const ItemRef item = allocate(
      c, item_key, shard_item_value(c.now_ms, request.header, made).size(), Urgency::kCommitted);
  if (!item) return refuse(Status::kNoSpace, "no memory for the shard");
  switch (bodies_.patch(from, pages, change, allocator(c), made)) {
    case ShardBodies::PatchEnd::kPatched:
      break;
    case ShardBodies::PatchEnd::kCopy:
      return std::nullopt;
    case ShardBodies::PatchEnd::kBadPage:
      return refuse_bad_page();
    case ShardBodies::PatchEnd::kNoRoom:
      return refuse(Status::kNoSpace, "no memory for the shard");
  }
  store_.write(item, 0, as_view(shard_item_value(c.now_ms, request.header, made)));
  link_shard(item);
  return answer_deltas(std::move(deltas));
}

Answer Engine::Impl::patch_copy(const Context& c, const ShardPatchRequest& request) {
  const FoundShard source = find_shard(request.source);
  if (!source.is_whole) return refuse(Status::kNotHere, "no such shard");
  OwnedBytes patched(request.header.payload_bytes);
  read_bytes(source, 0, patched.bytes());
  std::vector<uint32_t> stored = checksums(source, 0, page_count(patched.size()));
  const std::vector<size_t> pages = pages_of(request.extents);
  const auto page_of = [&](size_t page) {
    const size_t begin = page * kPageBytes;
    return patched.bytes().subspan(begin, std::min<size_t>(kPageBytes, patched.size() - begin));
  };
  OwnedBytes touched(pages.size() * kPageBytes);
  for (size_t i = 0; i < pages.size(); ++i) {
    if (crc32c(page_of(pages[i])) != stored[pages[i]]) return refuse_bad_page();
    std::ranges::copy(page_of(pages[i]), touched.bytes().subspan(i * kPageBytes).begin());
  }
  OwnedBytes deltas = apply(request, c.frame.payload, pages, touched.bytes());
  for (size_t i = 0; i < pages.size(); ++i) {
    const MutableByteView page = page_of(pages[i]);
    std::ranges::copy(touched.bytes().subspan(i * kPageBytes, page.size()), page.begin());
    stored[pages[i]] = crc32c(page);
  }
  // The next patch changes it in place.
  Answer result = store_shard(c, request.header, patched.bytes(), stored, Keeping::kInBody);
  return result.status == Status::kOk ? answer_deltas(std::move(deltas)) : std::move(result);
}

Answer Engine::Impl::refuse_bad_page() {
  ++counters_.bad_pages;
  return refuse(Status::kBadPage, "a page's checksum does not match");
}

}  // namespace elastripe::node
