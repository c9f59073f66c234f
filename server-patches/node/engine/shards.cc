// Shards: immutable items with a checksum a page. They depend on no partition: any node that is up
// takes them. docs/node-protocol.md, "Shards"; rules 5 and 6a of docs/consistency.md.
#include <algorithm>

#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/impl.h"

namespace elastripe::node {
namespace {

ByteView as_bytes_of(const std::vector<uint32_t>& checksums) {
  return std::as_bytes(std::span(checksums));
}

}  // namespace

std::vector<uint32_t> read_checksums(const ItemStore& store, const ItemRef& item,
                                     const ShardItem& layout, size_t first, size_t count) {
  std::vector<uint32_t> checksums(count);
  store.read(item, layout.checksums_at + first * sizeof(uint32_t),
             std::as_writable_bytes(std::span(checksums)));
  return checksums;
}

Engine::Impl::FoundShard Engine::Impl::find_shard(const ShardName& name) {
  const std::string item_key = shard_item_key(name);
  FoundShard found;
  {
    const Latch held = latch(hash_key(item_key));
    found.item = store_.find(item_key);
  }
  if (!found.item) return {};
  auto layout = read_shard_item(store_, found.item);
  if (!layout) {  // its memory was overwritten: as good as gone, and replaced by the next write
    ++counters_.bad_pages;
    return {};
  }
  found.layout = std::move(*layout);
  return found;
}

bool Engine::Impl::is_intact(const FoundShard& found, uint32_t* crc) const {
  const uint32_t payload_bytes = found.layout.header.payload_bytes;
  OwnedBytes payload(payload_bytes);
  store_.read(found.item, found.layout.payload_at, payload.bytes());
  const std::vector<uint32_t> checksums = page_checksums(payload.bytes());
  if (crc != nullptr) *crc = crc32c_of_pages(checksums, payload_bytes);
  return checksums ==
         read_checksums(store_, found.item, found.layout, 0, page_count(payload_bytes));
}

Answer Engine::Impl::shard_write(const Context& c, const ShardWriteRequest& request) {
  const ShardHeader& header = request.header;
  const ByteView payload = c.frame.payload;
  if (header.payload_bytes != payload.size()) {
    return refuse(Status::kInvalid, "the shard's length does not match its header");
  }
  return store_shard(c, header, payload);
}

Answer Engine::Impl::store_shard(const Context& c, const ShardHeader& header, ByteView payload) {
  const std::vector<uint32_t> checksums = page_checksums(payload);
  Answer stored = store_shard(c, header, payload, checksums);
  if (stored.status == Status::kOk) {
    encode(ShardWriteReply{crc32c_of_pages(checksums, payload.size())}, stored.args);
  }
  return stored;
}

Answer Engine::Impl::store_shard(const Context& c, const ShardHeader& header, ByteView payload,
                                 const std::vector<uint32_t>& checksums) {
  const std::string head = shard_item_head(c.now_ms, header);
  const std::string item_key = shard_item_key(header.name);
  const size_t payload_at = head.size() + checksums.size() * sizeof(uint32_t);

  const Latch held = latch(hash_key(item_key));
  const ItemRef old = store_.find(item_key);
  if (old) {
    if (auto layout = read_shard_item(store_, old)) {
      // Pages tell which bytes the name was given to, even where a page has gone bad since.
      const bool same = layout->header.payload_bytes == payload.size() &&
                        read_checksums(store_, old, *layout, 0, checksums.size()) == checksums;
      if (!same && !mutant(Mutant::kOverwriteParities)) {
        return refuse(Status::kExists, "the name is taken by other bytes");
      }
      OwnedBytes stored(layout->header.payload_bytes);
      store_.read(old, layout->payload_at, stored.bytes());
      if (std::ranges::equal(stored.bytes(), payload)) return {};
      // This one may be what has a bad page, of the source of a SHARD_PATCH.
      if (page_checksums(payload) != checksums) return {};
    }
  }
  const ItemRef item = allocate(c, item_key, payload_at + payload.size(), Urgency::kNewData);
  if (!item) return refuse(Status::kNoSpace, "no memory for the shard");
  store_.write(item, 0, as_view(head));
  store_.write(item, head.size(), as_bytes_of(checksums));
  store_.write(item, payload_at, payload);
  if (!old) ++counters_.shards;  // first: a scan that finds none does not look at the items
  store_.link(item);
  if (old) counters_.shard_bytes -= store_.value_bytes(old);
  counters_.shard_bytes += payload_at + payload.size();
  return {};
}

Answer Engine::Impl::shard_read(const Context&, const ShardReadRequest& request) {
  const FoundShard found = find_shard(request.name);
  if (!found.item) return refuse(Status::kNotHere, "no such shard");
  const size_t total = found.layout.header.payload_bytes;
  const size_t begin = request.offset;
  if (begin > total || request.length > total - begin) {
    return refuse(Status::kInvalid, "the range is beyond the shard's end");
  }
  const size_t end = request.length == 0 ? total : begin + request.length;
  const size_t first_page = begin / kPageBytes;
  const size_t pages = page_count(end) - std::min(first_page, page_count(end));
  const size_t pages_begin = first_page * kPageBytes;
  const size_t pages_end = std::min(pages_begin + pages * kPageBytes, total);

  OwnedBytes bytes(pages == 0 ? 0 : pages_end - pages_begin);
  store_.read(found.item, found.layout.payload_at + std::min(pages_begin, total), bytes.bytes());
  if (page_checksums(bytes.bytes()) !=
      read_checksums(store_, found.item, found.layout, first_page, pages)) {
    ++counters_.bad_pages;
    return refuse(Status::kBadPage, "a page's checksum does not match");
  }
  Answer result;
  if (bytes.size() == end - begin) {
    result.payload = std::move(bytes);
  } else {
    const ByteView wanted = ByteView(bytes.bytes()).subspan(begin - pages_begin, end - begin);
    result.payload = OwnedBytes(as_text(wanted));
  }
  return result;
}

Answer Engine::Impl::shard_confirm(const Context&, const ShardConfirmRequest& request) {
  if (request.names.size() > kMaxListEntries) return refuse(Status::kInvalid, "too many names");
  ShardConfirmReply reply;
  reply.entries.reserve(request.names.size());
  size_t bytes = 0;
  for (const ShardName& name : request.names) {
    ShardConfirmReply::Entry entry;
    const FoundShard found = find_shard(name);
    if (found.item) {
      if (request.check_pages) bytes += found.layout.header.payload_bytes;
      if (bytes > options_.confirm_bytes && !reply.entries.empty()) break;
      entry.present = !request.check_pages || is_intact(found, &entry.crc32c);
      entry.payload_bytes = found.layout.header.payload_bytes;
      if (!entry.present) ++counters_.bad_pages;
    }
    reply.entries.push_back(entry);
  }
  return answer(Status::kOk, reply);
}

Answer Engine::Impl::shard_delete(const Context& c, const ShardDeleteRequest& request) {
  if (request.names.size() > kMaxListEntries) return refuse(Status::kInvalid, "too many names");
  if (request.after_ms > kMaxDeletionDelay_ms) return refuse(Status::kInvalid, "too late");
  ShardDeleteReply reply;
  if (request.after_ms > 0) {
    const uint64_t due_ms = c.now_ms + request.after_ms;
    if (!deletions_.add(due_ms, request.names)) {
      return refuse(Status::kNoSpace, "too many deletions are waiting");
    }
    for (const ShardName& name : request.names) reply.deleted += has_shard(name);
    return answer(Status::kOk, reply);
  }
  for (const ShardName& name : request.names) reply.deleted += delete_shard(name);
  return answer(Status::kOk, reply);
}

bool Engine::Impl::has_shard(const ShardName& name) {
  const std::string item_key = shard_item_key(name);
  const Latch held = latch(hash_key(item_key));
  return static_cast<bool>(store_.find(item_key));
}

bool Engine::Impl::delete_shard(const ShardName& name) {
  const std::string item_key = shard_item_key(name);
  const Latch held = latch(hash_key(item_key));
  const ItemRef item = store_.find(item_key);
  if (!item || !store_.remove(item_key)) return false;
  --counters_.shards;
  counters_.shard_bytes -= store_.value_bytes(item);
  return true;
}

}  // namespace elastripe::node
