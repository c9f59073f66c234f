#include "server-patches/node/engine/shard_bodies.h"

#include <algorithm>
#include <cstring>

#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/engine.h"

namespace elastripe::node {
namespace {

constexpr char kBodyTag = '\x04';
constexpr std::string_view kUndoKey = "\x04";  // no item is found by it, as none of them is linked
// serial u64 | names u32 | bytes u32 | checksum u32 of the item's key and of these.
constexpr size_t kHeadBytes = 20;
constexpr size_t kCoveredBytes = kHeadBytes - sizeof(uint32_t);
// Readers of old versions go through all of them. One more, and the shard is copied.
constexpr size_t kMaxOlder = 4096;
// Undos up to so many bytes may use the reserve, which commits need: what is stored already can be
// updated where new data is refused.
constexpr size_t kUrgentUndoBytes = 256 << 10;

std::string body_key(uint64_t body) {
  std::string key(1, kBodyTag);
  Writer(key).u64(body);
  return key;
}

size_t body_payload_at(size_t payload_bytes) {
  return kHeadBytes + page_count(payload_bytes) * sizeof(uint32_t);
}

size_t page_bytes(size_t page, size_t payload_bytes) {
  return std::min<size_t>(kPageBytes, payload_bytes - page * kPageBytes);
}

// What pages take that lie one after the other.
size_t bytes_of(const std::vector<size_t>& pages, size_t payload_bytes) {
  return pages.empty() ? 0
                       : (pages.size() - 1) * kPageBytes + page_bytes(pages.back(), payload_bytes);
}

struct UndonePage {
  uint32_t page = 0;
  uint32_t checksum = 0;
};

std::vector<UndonePage> undone_pages(const ItemStore& store, const ItemRef& undo) {
  uint32_t count = 0;
  store.read(undo, 0, std::as_writable_bytes(std::span(&count, 1)));
  std::vector<UndonePage> pages(count);
  store.read(undo, sizeof(count), std::as_writable_bytes(std::span(pages)));
  return pages;
}

size_t undo_bytes_at(size_t pages) { return sizeof(uint32_t) + pages * sizeof(UndonePage); }

void write_undo(ItemStore& store, const ItemRef& undo, const std::vector<UndonePage>& pages,
                ByteView bytes) {
  const auto count = static_cast<uint32_t>(pages.size());
  store.write(undo, 0, std::as_bytes(std::span(&count, 1)));
  store.write(undo, sizeof(count), std::as_bytes(std::span(pages)));
  store.write(undo, undo_bytes_at(pages.size()), bytes);
}

std::vector<uint32_t> checksums_of(ByteView pages) {
  std::vector<uint32_t> checksums;
  checksums.reserve(page_count(pages.size()));
  for (; !pages.empty(); pages = pages.subspan(std::min<size_t>(kPageBytes, pages.size()))) {
    checksums.push_back(crc32c(pages.first(std::min<size_t>(kPageBytes, pages.size()))));
  }
  return checksums;
}

}  // namespace

struct ShardBodies::Head {
  uint64_t serial = 0;
  uint32_t names = 0;
  uint32_t payload_bytes = 0;

  size_t payload_at() const { return body_payload_at(payload_bytes); }
};

std::optional<ShardBodies::Head> ShardBodies::read_head(const ItemRef& item) const {
  if (store_.value_bytes(item) < kHeadBytes) return std::nullopt;
  std::array<std::byte, kHeadBytes> raw;
  store_.read(item, 0, raw);
  Reader in(raw);
  Head head;
  head.serial = in.u64();
  head.names = in.u32();
  head.payload_bytes = in.u32();
  std::string covered(store_.key(item));
  covered.append(as_text(raw), 0, kCoveredBytes);
  if (in.u32() != crc32c(as_view(covered))) return std::nullopt;
  if (head.payload_at() + head.payload_bytes != store_.value_bytes(item)) return std::nullopt;
  return head;
}

void ShardBodies::write_head(const ItemRef& item, const Head& head) {
  std::string covered(store_.key(item));
  const size_t begin = covered.size();
  Writer w(covered);
  w.u64(head.serial);
  w.u32(head.names);
  w.u32(head.payload_bytes);
  w.u32(crc32c(as_view(covered)));
  store_.write(item, 0, as_view(covered).subspan(begin));
}

std::optional<BodyVersion> ShardBodies::create(ByteView payload,
                                               const std::vector<uint32_t>& checksums,
                                               const Allocate& allocate) {
  const BodyVersion version{next_++, 1};
  const Head head{version.serial, 1, static_cast<uint32_t>(payload.size())};
  const ItemRef item =
      allocate(body_key(version.body), head.payload_at() + payload.size(), Urgency::kNewData);
  if (!item) return std::nullopt;
  write_head(item, head);
  store_.write(item, kHeadBytes, std::as_bytes(std::span(checksums)));
  store_.write(item, head.payload_at(), payload);
  store_.link(item);
  return version;
}

ShardBodies::Image ShardBodies::find(const BodyVersion& version) const {
  Part& part = part_of(version.body);
  const std::lock_guard lock(part.mutex);
  Image image;
  image.body = store_.find(body_key(version.body));
  if (!image.body) return {};
  const auto head = read_head(image.body);
  if (!head || head->serial < version.serial) return {};
  image.payload_bytes = head->payload_bytes;
  if (head->serial == version.serial) return image;
  const auto found = part.older.find(version.body);
  if (found == part.older.end() || found->second.front().serial > version.serial) return {};
  for (auto older = found->second.rbegin(); older->serial >= version.serial; ++older) {
    image.undos.push_back(older->undo);
    if (older->serial == version.serial) break;
  }
  return image;
}

void ShardBodies::read(const Image& image, size_t offset, MutableByteView out) const {
  store_.read(image.body, body_payload_at(image.payload_bytes) + offset, out);
  const size_t end = offset + out.size();
  for (const auto& undo : image.undos) {
    const std::vector<UndonePage> pages = undone_pages(store_, *undo);
    for (size_t i = 0; i < pages.size(); ++i) {
      const size_t begin_of_page = size_t{pages[i].page} * kPageBytes;
      const size_t end_of_page = begin_of_page + page_bytes(pages[i].page, image.payload_bytes);
      const size_t from = std::max(offset, begin_of_page);
      const size_t to = std::min(end, end_of_page);
      if (from >= to) continue;
      const size_t at = undo_bytes_at(pages.size()) + i * kPageBytes + (from - begin_of_page);
      store_.read(*undo, at, out.subspan(from - offset, to - from));
    }
  }
}

std::vector<uint32_t> ShardBodies::checksums(const Image& image, size_t first, size_t count) const {
  std::vector<uint32_t> checksums(count);
  store_.read(image.body, kHeadBytes + first * sizeof(uint32_t),
              std::as_writable_bytes(std::span(checksums)));
  for (const auto& undo : image.undos) {
    for (const UndonePage& undone : undone_pages(store_, *undo)) {
      if (undone.page >= first && undone.page - first < count) {
        checksums[undone.page - first] = undone.checksum;
      }
    }
  }
  return checksums;
}

ShardBodies::PatchEnd ShardBodies::patch(const BodyVersion& from, const std::vector<size_t>& pages,
                                         const std::function<void(MutableByteView)>& change,
                                         const Allocate& allocate, BodyVersion& made) {
  Part& part = part_of(from.body);
  const std::lock_guard lock(part.mutex);
  const ItemRef body = store_.find(body_key(from.body));
  if (!body || !store_.is_unshared(body)) return PatchEnd::kCopy;
  auto head = read_head(body);
  if (!head || head->serial != from.serial) return PatchEnd::kCopy;
  if (part.nameless.contains(from.body)) return PatchEnd::kCopy;  // just deleted
  const auto older = part.older.find(from.body);
  if (older != part.older.end() && older->second.size() >= kMaxOlder) return PatchEnd::kCopy;

  OwnedBytes bytes(bytes_of(pages, head->payload_bytes));
  std::vector<UndonePage> undone;
  undone.reserve(pages.size());
  for (size_t i = 0; i < pages.size(); ++i) {
    const size_t size = page_bytes(pages[i], head->payload_bytes);
    const MutableByteView page = bytes.bytes().subspan(i * kPageBytes, size);
    store_.read(body, head->payload_at() + pages[i] * kPageBytes, page);
    uint32_t checksum = 0;
    store_.read(body, kHeadBytes + pages[i] * sizeof(uint32_t),
                std::as_writable_bytes(std::span(&checksum, 1)));
    if (crc32c(page) != checksum) return PatchEnd::kBadPage;
    undone.push_back({static_cast<uint32_t>(pages[i]), checksum});
  }
  const size_t undo_bytes = undo_bytes_at(pages.size()) + bytes.size();
  const bool is_urgent = undo_bytes_ + undo_bytes <= kUrgentUndoBytes;
  auto undo = std::make_shared<const ItemRef>(
      allocate(kUndoKey, undo_bytes, is_urgent ? Urgency::kCommitted : Urgency::kNewData));
  if (!*undo) return PatchEnd::kNoRoom;
  undo_bytes_ += undo_bytes;
  write_undo(store_, *undo, undone, bytes.bytes());

  change(bytes.bytes());
  const std::vector<uint32_t> checksums = checksums_of(bytes.bytes());
  for (size_t i = 0; i < pages.size(); ++i) {
    const size_t size = page_bytes(pages[i], head->payload_bytes);
    store_.write(body, head->payload_at() + pages[i] * kPageBytes,
                 ByteView(bytes.bytes()).subspan(i * kPageBytes, size));
    store_.write(body, kHeadBytes + pages[i] * sizeof(uint32_t),
                 std::as_bytes(std::span(&checksums[i], 1)));
  }
  part.older[from.body].push_back({from.serial, true, std::move(undo)});
  made = {from.body, ++head->serial};
  ++head->names;
  write_head(body, *head);
  return PatchEnd::kPatched;
}

size_t ShardBodies::stored_bytes(size_t payload_bytes) {
  return body_payload_at(payload_bytes) + payload_bytes;
}

size_t ShardBodies::drop(const BodyVersion& version) {
  Part& part = part_of(version.body);
  const std::lock_guard lock(part.mutex);
  const std::string key = body_key(version.body);
  const ItemRef body = store_.find(key);
  if (!body) return 0;
  auto head = read_head(body);
  // Where the head has gone bad, no name finds anything there.
  const auto found = part.older.find(version.body);
  if (!head || head->names <= 1) {
    if (found != part.older.end()) {
      for (const Older& one : found->second) forget_undo(one);
      part.older.erase(found);
    }
    part.nameless.erase(version.body);
    store_.remove(key);
    return store_.value_bytes(body);
  }
  --head->names;
  write_head(body, *head);
  if (head->serial == version.serial) part.nameless.insert(version.body);
  if (found == part.older.end()) return 0;
  std::deque<Older>& older = found->second;
  const auto place = std::ranges::lower_bound(older, version.serial, {}, &Older::serial);
  if (place != older.end() && place->serial == version.serial) place->has_name = false;
  for (; !older.empty() && !older.front().has_name; older.pop_front()) forget_undo(older.front());
  if (older.empty()) part.older.erase(found);
  return 0;
}

void ShardBodies::forget_undo(const Older& older) {
  undo_bytes_ -= store_.value_bytes(*older.undo);
}

}  // namespace elastripe::node
