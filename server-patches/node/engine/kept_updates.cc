// SHARD_UPDATE's modes that let parities know later, or without the difference: what data shards
// keep of it, and what parities have until they can do something with it.
#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <vector>

#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/item_formats.h"
#include "server-patches/node/engine/shard_updates.h"

namespace elastripe::node {
namespace {

// What pages of a data shard are kept at most.
constexpr size_t kMaxKeptBytes = 1 << 20;

// Calls `use(page, begin, end)` for the part of the bytes that lies in each page, by offsets in it.
template <class Use>
void for_each_page(size_t offset, size_t size, Use use) {
  for (size_t at = offset; at < offset + size;) {
    const size_t page = at / kPageBytes;
    const size_t end = std::min((page + 1) * kPageBytes, offset + size);
    use(page, at - page * kPageBytes, end - page * kPageBytes);
    at = end;
  }
}

// Adds bytes that lie behind those of the ranges before.
void add_range(std::vector<ShardUpdateReply::Range>& ranges, size_t offset, size_t size) {
  if (!ranges.empty() && offset == ranges.back().offset + ranges.back().length) {
    ranges.back().length += static_cast<uint32_t>(size);
  } else {
    ranges.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(size)});
  }
}

OwnedBytes joined(const std::vector<ByteView>& pieces, size_t total) {
  OwnedBytes all(total);
  MutableByteView rest = all.bytes();
  for (const ByteView piece : pieces) {
    std::ranges::copy(piece, rest.begin());
    rest = rest.subspan(piece.size());
  }
  return all;
}

}  // namespace

// Adjacent pages from the first on, as they are before a change.
void ShardUpdates::keep_pages(const ShardName& name, size_t first, ByteView bytes) {
  for_each_page(0, bytes.size(), [&](size_t page, size_t, size_t size) {
    KeptPages* const kept = kept_.find(name);
    if (kept != nullptr && kept->has(first + page)) return;
    auto before = pool_.append(bytes.subspan(page * kPageBytes, size), LogPool::Claim::kNew);
    if (before) kept_.at(name).keep(first + page, std::move(*before));
  });
}

// By how much pages have changed that are kept is told when they are flushed.
void ShardUpdates::leave_out(KeptPages& kept, const Part& part, MutableByteView delta) {
  for_each_page(part.offset, part.bytes.size(), [&](size_t page, size_t begin, size_t end) {
    if (!kept.has(page)) return;
    kept.note_write(page, begin, end);
    std::ranges::fill(delta.subspan(page * kPageBytes + begin - part.offset, end - begin),
                      std::byte{0});
  });
}

Answer ShardUpdates::keep(const ShardUpdateRequest& request, ByteView payload,
                          const Allocate& allocate) {
  const KeptPages* kept = kept_.find(request.name);
  const size_t kept_bytes = kept == nullptr ? 0 : kept->bytes();
  size_t fresh_bytes = 0;
  size_t next = 0;  // page that is not counted yet
  for (const auto& extent : request.extents) {
    for_each_page(extent.offset, extent.length, [&](size_t page, size_t, size_t) {
      if (page >= next && (kept == nullptr || !kept->has(page))) fresh_bytes += kPageBytes;
      next = page + 1;
    });
  }
  const bool has_room = fresh_bytes == 0 || kept_bytes + fresh_bytes <=
                                                std::min<size_t>(request.log_bytes, kMaxKeptBytes);
  if (!has_room && kept_bytes > 0) return refuse(Status::kLogFull, "pages are to be flushed first");
  Change change = change_of(request, payload);
  change.keeps = has_room;
  OwnedBytes deltas(payload.size());
  if (auto refusal = make(change, deltas.bytes(), allocate)) return std::move(*refusal);

  kept = kept_.find(request.name);
  ShardUpdateReply reply;
  std::vector<ByteView> pieces;
  size_t told = 0;
  ByteView rest = deltas.bytes();
  for (const auto& extent : request.extents) {
    for_each_page(extent.offset, extent.length, [&](size_t page, size_t begin, size_t end) {
      const ByteView piece = rest.first(end - begin);
      rest = rest.subspan(piece.size());
      if (kept != nullptr && kept->has(page)) return;
      add_range(reply.ranges, page * kPageBytes + begin, piece.size());
      pieces.push_back(piece);
      told += piece.size();
    });
  }
  return answer(Status::kOk, reply, joined(pieces, told));
}

Answer ShardUpdates::flush(const ShardName& name, size_t left_bytes) {
  ShardUpdateReply reply;
  if (const TouchedLines* const touched = touched_.find(name)) {
    reply.epoch = touched->epoch;
    reply.serial = touched->writes;
    touched_.drop(name);
    return answer(Status::kOk, reply);
  }
  KeptPages* const kept = kept_.find(name);
  if (kept == nullptr) return answer(Status::kOk, reply);
  const ItemRef item = store_.find(shard_item_key(name));
  if (!item) return refuse(Status::kNotHere, "no such shard");
  const auto layout = read_shard_item(store_, item);
  if (!layout) return refuse(Status::kNotHere, "no such shard");
  const std::vector<size_t> pages = kept->oldest(left_bytes);
  std::vector<OwnedBytes> changes;  // of the pages
  std::vector<ByteView> pieces;     // of these
  changes.reserve(pages.size());
  size_t told = 0;
  for (const size_t page : pages) {
    const KeptPages::Page& old = kept->page(page);
    OwnedBytes now(old.before.size());
    store_.read(item, layout->payload_at + page * kPageBytes, now.bytes());
    if (page_checksums(now.bytes()) != read_checksums(store_, item, *layout, page, 1)) {
      ++counters_.bad_pages;
      return refuse(Status::kBadPage, "a page's checksum does not match");
    }
    OwnedBytes& change = changes.emplace_back(old.before.size());
    old.before.read(change.bytes());
    std::ranges::transform(change.bytes(), now.bytes(), change.bytes().begin(), std::bit_xor());
    for (uint64_t lines = old.lines; lines != 0; lines &= lines - 1) {
      const size_t begin = static_cast<size_t>(std::countr_zero(lines)) * KeptPages::kLineBytes;
      const ByteView piece = change.bytes().subspan(begin).first(
          std::min<size_t>(KeptPages::kLineBytes, change.size() - begin));
      add_range(reply.ranges, page * kPageBytes + begin, piece.size());
      pieces.push_back(piece);
      told += piece.size();
    }
  }
  for (const size_t page : pages) kept->forget(page);
  if (kept->empty()) kept_.drop(name);
  return answer(Status::kOk, reply, joined(pieces, told));
}

ShardUpdates::Refusal ShardUpdates::hold(const ShardUpdateRequest& request, ByteView payload) {
  const ItemRef item = store_.find(shard_item_key(request.name));
  if (!item) return refuse(Status::kNotHere, "no such shard");
  for (const auto& extent : request.extents) {
    auto bytes = pool_.append(payload.first(extent.length), LogPool::Claim::kAccepted);
    if (!bytes) return refuse(Status::kLogFull, "no memory to hold bytes");
    held_.at(request.name).hold(extent.offset, std::move(*bytes));
    payload = payload.subspan(extent.length);
  }
  return std::nullopt;
}

Answer ShardUpdates::touch(const ShardUpdateRequest& request, ByteView payload,
                           const Allocate& allocate) {
  if (auto refusal = check_place(request)) return std::move(*refusal);
  const TouchedLines* const touched = touched_.find(request.name);
  const size_t bytes = touched == nullptr ? 0 : touched->bytes;
  const bool has_room =
      bytes + payload.size() <= std::min<size_t>(request.log_bytes, kMaxKeptBytes);
  if (!has_room && bytes > 0) return refuse(Status::kLogFull, "the epoch is to end first");
  const ItemRef item = store_.find(shard_item_key(request.name));
  const auto layout = read_shard_item(store_, item);
  // What these bytes are now, with the lines that they lie in.
  TouchedLines lines = touched == nullptr ? TouchedLines{} : *touched;
  ShardUpdateReply reply;
  OwnedBytes told;
  if (has_room) {
    size_t total = 0;
    for (const auto& extent : request.extents) {
      lines.touch(extent.offset, extent.length, layout->header.payload_bytes, reply.ranges);
    }
    for (const auto& range : reply.ranges) total += range.length;
    told = OwnedBytes(total);
    MutableByteView rest = told.bytes();
    for (const auto& range : reply.ranges) {
      store_.read(item, layout->payload_at + range.offset, rest.first(range.length));
      rest = rest.subspan(range.length);
    }
  }
  OwnedBytes deltas(payload.size());
  if (auto refusal = make(change_of(request, payload), deltas.bytes(), allocate)) {
    return std::move(*refusal);
  }
  if (!has_room) {
    for (const auto& extent : request.extents) {
      reply.ranges.push_back({extent.offset, extent.length});
    }
    return answer(Status::kOk, reply, std::move(deltas));
  }
  if (lines.epoch == 0) lines.epoch = ++last_epoch_;
  lines.bytes += payload.size();
  reply.epoch = lines.epoch;
  reply.serial = ++lines.writes;
  touched_.at(request.name) = std::move(lines);
  return answer(Status::kOk, reply, std::move(told));
}

ShardUpdates::Refusal ShardUpdates::speculate(const ShardUpdateRequest& request, ByteView payload,
                                              const Allocate& allocate) {
  if (auto refusal = check_place(request)) return refusal;
  std::vector<SpeculativeLog::Piece> pieces;
  pieces.reserve(request.extents.size());
  for (const auto& extent : request.extents) {
    // The data is what it is: its parities can only follow.
    auto bytes = pool_.append(payload.first(extent.length), LogPool::Claim::kAccepted);
    if (!bytes) return refuse(Status::kNoSpace, "no memory for a log");
    const bool is_original = pieces.size() < request.originals;
    pieces.push_back({is_original ? 0 : request.serial, extent.offset, std::move(*bytes)});
    payload = payload.subspan(extent.length);
  }
  auto& epoch = speculated_.at(request.name).at(request.source, request.epoch);
  std::ranges::move(pieces, std::back_inserter(epoch.pieces));
  epoch.coefficient = request.coefficient;
  ++epoch.writes;
  // If there is no memory, it is done when the shard is drained.
  if (epoch.is_complete()) (void)fold_epochs(request.name, allocate);
  return std::nullopt;
}

ShardUpdates::Refusal ShardUpdates::settle(const ShardUpdateRequest& request,
                                           const Allocate& allocate) {
  if (auto refusal = check_place(request)) return refusal;
  speculated_.at(request.name).at(request.source, request.epoch).expected = request.serial;
  return fold_epochs(request.name, allocate);
}

ShardUpdates::Refusal ShardUpdates::fold_epochs(const ShardName& name, const Allocate& allocate) {
  SpeculativeLog* const log = speculated_.find(name);
  if (log == nullptr) return std::nullopt;
  std::vector<SpeculativeLog::Name> complete;
  for (const auto& [epoch_name, epoch] : log->epochs()) {
    if (epoch.is_complete()) complete.push_back(epoch_name);
  }
  for (const auto& epoch_name : complete) {
    const auto changes = changes_of(log->epochs().at(epoch_name));
    Change change{.name = name, .parts = {}};
    change.parts.reserve(changes.size());
    for (const ParityChange& piece : changes) change.parts.push_back({piece.offset, piece.bytes});
    if (auto refusal = make(change, {}, allocate)) return refusal;
    log->forget(epoch_name);
  }
  if (log->empty()) speculated_.drop(name);
  return std::nullopt;
}

Answer ShardUpdates::drop_held(const ShardUpdateRequest& request) {
  if (request.extents.empty()) {
    collected_.drop(request.name);
  } else if (HeldBytes* const held = held_.find(request.name)) {
    for (const auto& extent : request.extents) {
      held->drop(extent.offset, uint64_t{extent.offset} + extent.length);
    }
    if (held->empty()) held_.drop(request.name);
  }
  return answer(Status::kOk, ShardUpdateReply{});
}

}  // namespace elastripe::node
