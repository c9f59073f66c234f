// Shards: immutable items with a checksum a page. They depend on no partition: any node that is up
// takes them. docs/node-protocol.md, "Shards"; rules 5 and 6a of docs/consistency.md.
#include <algorithm>

#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/impl.h"

namespace elastripe::node {
namespace {

constexpr size_t kFoldedPerTick = 64;

ByteView as_bytes_of(const std::vector<uint32_t>& checksums) {
  return std::as_bytes(std::span(checksums));
}

}  // namespace

Engine::Impl::FoundShard Engine::Impl::find_shard(const ShardName& name) {
  const std::string item_key = shard_item_key(name);
  const Latch held = latch(hash_key(item_key));
  // Without its log a parity is none of the data that is there now: an erasure.
  if (!shard_updates_.fold(name)) return {};
  return find_latched(item_key);
}

Engine::Impl::FoundShard Engine::Impl::find_latched(std::string_view item_key) {
  FoundShard found;
  found.item = store_.find(item_key);
  if (!found.item) return {};
  auto layout = read_shard_item(store_, found.item);
  if (layout && layout->version) {
    found.image = bodies_.find(*layout->version);
    found.is_whole = found.image.body && found.image.payload_bytes == layout->header.payload_bytes;
  } else {
    found.is_whole = layout.has_value();
  }
  // Its memory was overwritten: as good as gone, and replaced by the next write.
  if (!found.is_whole) ++counters_.bad_pages;
  if (layout) found.layout = std::move(*layout);
  return found;
}

void Engine::Impl::read_bytes(const FoundShard& found, size_t offset, MutableByteView out) const {
  if (found.layout.version) return bodies_.read(found.image, offset, out);
  store_.read(found.item, found.layout.payload_at + offset, out);
}

std::vector<uint32_t> Engine::Impl::checksums(const FoundShard& found, size_t first,
                                              size_t count) const {
  return found.layout.version ? bodies_.checksums(found.image, first, count)
                              : read_checksums(store_, found.item, found.layout, first, count);
}

bool Engine::Impl::is_intact(const FoundShard& found, uint32_t* crc) const {
  const uint32_t payload_bytes = found.layout.header.payload_bytes;
  OwnedBytes payload(payload_bytes);
  read_bytes(found, 0, payload.bytes());
  const std::vector<uint32_t> computed = page_checksums(payload.bytes());
  if (crc != nullptr) *crc = crc32c_of_pages(computed, payload_bytes);
  return computed == checksums(found, 0, page_count(payload_bytes));
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
  const std::vector<uint32_t> computed = page_checksums(payload);
  Answer stored = store_shard(c, header, payload, computed, Keeping::kInItem);
  if (stored.status == Status::kOk) {
    encode(ShardWriteReply{crc32c_of_pages(computed, payload.size())}, stored.args);
  }
  return stored;
}

Answer Engine::Impl::store_shard(const Context& c, const ShardHeader& header, ByteView payload,
                                 const std::vector<uint32_t>& checksums_given, Keeping keeping) {
  const std::string item_key = shard_item_key(header.name);
  const Latch held = latch(hash_key(item_key));
  const FoundShard old = find_latched(item_key);
  if (old.is_whole) {
    // Pages tell which bytes the name was given to, even where a page has gone bad since.
    const size_t bytes = old.layout.header.payload_bytes;
    const bool same =
        bytes == payload.size() && checksums(old, 0, page_count(bytes)) == checksums_given;
    if (!same && !mutant(Mutant::kOverwriteParities)) {
      return refuse(Status::kExists, "the name is taken by other bytes");
    }
    OwnedBytes stored(bytes);
    read_bytes(old, 0, stored.bytes());
    if (std::ranges::equal(stored.bytes(), payload)) return {};
    // This one may be what has a bad page, of the source of a SHARD_PATCH.
    if (page_checksums(payload) != checksums_given) return {};
  }
  const bool is_stored = keeping == Keeping::kInBody
                             ? link_in_new_body(c, item_key, header, payload, checksums_given)
                             : link_in_item(c, item_key, header, payload, checksums_given);
  if (!is_stored) return refuse(Status::kNoSpace, "no memory for the shard");
  if (old.item) forget_shard(old);
  return {};
}

bool Engine::Impl::link_in_item(const Context& c, std::string_view item_key,
                                const ShardHeader& header, ByteView payload,
                                const std::vector<uint32_t>& checksums_given) {
  const std::string head = shard_item_head(c.now_ms, header);
  const size_t payload_at = head.size() + checksums_given.size() * sizeof(uint32_t);
  const ItemRef item = allocate(c, item_key, payload_at + payload.size(), Urgency::kNewData);
  if (!item) return false;
  store_.write(item, 0, as_view(head));
  store_.write(item, head.size(), as_bytes_of(checksums_given));
  store_.write(item, payload_at, payload);
  link_shard(item);
  return true;
}

bool Engine::Impl::link_in_new_body(const Context& c, std::string_view item_key,
                                    const ShardHeader& header, ByteView payload,
                                    const std::vector<uint32_t>& checksums_given) {
  const auto version = bodies_.create(payload, checksums_given, allocator(c));
  if (!version) return false;
  if (link_version(c, item_key, header, *version)) {
    counters_.shard_bytes += ShardBodies::stored_bytes(payload.size());
    return true;
  }
  bodies_.drop(*version);
  return false;
}

bool Engine::Impl::link_version(const Context& c, std::string_view item_key,
                                const ShardHeader& header, const BodyVersion& version) {
  const std::string value = shard_item_value(c.now_ms, header, version);
  const ItemRef item = allocate(c, item_key, value.size(), Urgency::kCommitted);
  if (!item) return false;
  store_.write(item, 0, as_view(value));
  link_shard(item);
  return true;
}

void Engine::Impl::link_shard(const ItemRef& item) {
  ++counters_.shards;  // first: a scan that finds none does not look at the items
  store_.link(item);
  counters_.shard_bytes += store_.value_bytes(item);
}

void Engine::Impl::forget_shard(const FoundShard& gone) {
  --counters_.shards;
  counters_.shard_bytes -= store_.value_bytes(gone.item);
  if (gone.layout.version) counters_.shard_bytes -= bodies_.drop(*gone.layout.version);
}

Answer Engine::Impl::shard_read(const Context&, const ShardReadRequest& request) {
  const FoundShard found = find_shard(request.name);
  if (!found.is_whole) return refuse(Status::kNotHere, "no such shard");
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
  read_bytes(found, std::min(pages_begin, total), bytes.bytes());
  if (page_checksums(bytes.bytes()) != checksums(found, first_page, pages)) {
    return refuse_bad_page();
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
    if (found.is_whole) {
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

Answer Engine::Impl::shard_update(const Context& c, const ShardUpdateRequest& request) {
  const Latch held = latch(hash_key(shard_item_key(request.name)));
  return shard_updates_.serve(request, c.frame.payload,
                              [&](std::string_view item_key, size_t value_bytes) {
                                return allocate(c, item_key, value_bytes, Urgency::kNewData);
                              });
}

void Engine::Impl::fold_parities() {
  for (const ShardName& name : shard_updates_.to_fold(kFoldedPerTick)) {
    const Progress::Stay stay(progress_, clock_.coarse_ms());
    std::shared_lock shared(gate_);
    const Latch held = latch(hash_key(shard_item_key(name)));
    (void)shard_updates_.fold(name);
  }
}

bool Engine::Impl::has_shard(const ShardName& name) {
  const std::string item_key = shard_item_key(name);
  const Latch held = latch(hash_key(item_key));
  return static_cast<bool>(store_.find(item_key));
}

bool Engine::Impl::delete_shard(const ShardName& name) {
  const std::string item_key = shard_item_key(name);
  const Latch held = latch(hash_key(item_key));
  const FoundShard found = find_latched(item_key);
  if (!found.item || !store_.remove(item_key)) return false;
  shard_updates_.drop(name);
  forget_shard(found);
  return true;
}

}  // namespace elastripe::node
