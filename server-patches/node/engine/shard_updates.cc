#include "server-patches/node/engine/shard_updates.h"

#include <algorithm>
#include <vector>

#include "coding/gf.h"
#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/engine.h"
#include "server-patches/node/engine/item_formats.h"

namespace elastripe::node {
namespace {

// What the log of a parity shard holds at most, and a collector, whatever a request says.
constexpr size_t kMaxParityLogBytes = 1 << 20;
constexpr size_t kMaxCollectedBytes = 512 << 10;
constexpr size_t kCopiedAtOnce = 64 << 10;

// Why the request does not fit its payload, or that is not what was sent; or nothing.
std::optional<std::string_view> check_extents(const ShardUpdateRequest& request, ByteView payload) {
  for (const auto& extent : request.extents) {
    if (extent.length > payload.size()) return "the payload is too short for the extents";
    if (crc32c(payload.first(extent.length)) != extent.crc32c) {
      return "the checksum of an extent does not match";
    }
    payload = payload.subspan(extent.length);
  }
  if (!payload.empty()) return "the payload is too long for the extents";
  return std::nullopt;
}

// Adjacent pages that change.
struct PageRun {
  size_t first = 0;
  size_t end = 0;
  OwnedBytes bytes = {};
};

// Adds those of the bytes, which lie behind those of the runs before.
void add_pages(std::vector<PageRun>& runs, size_t offset, size_t size) {
  const size_t first = offset / kPageBytes;
  const size_t end = page_count(offset + size);
  if (!runs.empty() && first <= runs.back().end) {
    runs.back().end = std::max(runs.back().end, end);
  } else {
    runs.push_back({first, end});
  }
}

void add(MutableByteView to, ByteView bytes) {
  std::byte* const out = to.data();
  const std::byte* const in = bytes.data();
  for (size_t i = 0; i < to.size(); ++i) out[i] ^= in[i];
}

void copy_value(ItemStore& store, const ItemRef& from, const ItemRef& to) {
  const size_t total = store.value_bytes(from);
  OwnedBytes piece(std::min(total, kCopiedAtOnce));
  for (size_t at = 0; at < total; at += piece.size()) {
    const MutableByteView part = piece.bytes().first(std::min(piece.size(), total - at));
    store.read(from, at, part);
    store.write(to, at, part);
  }
}

// What the entries of a log come to at each of so many parities, and where.
struct Sums {
  std::vector<ShardUpdateReply::Range> ranges;
  std::vector<size_t> starts;  // of the ranges, in the sums
  std::vector<std::vector<std::byte>> of_parity;
};

Sums sums_of(const ParityLogs::Log& log, size_t parities) {
  std::vector<ShardUpdateReply::Range> pieces;
  pieces.reserve(log.entries.size());
  for (const auto& entry : log.entries) {
    pieces.push_back({entry.offset, static_cast<uint32_t>(entry.bytes.size())});
  }
  std::ranges::sort(pieces, {}, &ShardUpdateReply::Range::offset);
  Sums sums;
  size_t total = 0;
  for (const auto& piece : pieces) {
    if (sums.ranges.empty() ||
        piece.offset > sums.ranges.back().offset + sums.ranges.back().length) {
      sums.ranges.push_back({piece.offset, 0});
      sums.starts.push_back(total);
    }
    auto& last = sums.ranges.back();
    const uint32_t end = std::max(last.offset + last.length, piece.offset + piece.length);
    total += end - (last.offset + last.length);
    last.length = end - last.offset;
  }
  sums.of_parity.assign(parities, std::vector<std::byte>(total));
  for (const auto& entry : log.entries) {
    OwnedBytes bytes(entry.bytes.size());
    entry.bytes.read(bytes.bytes());
    const auto behind =
        std::ranges::upper_bound(sums.ranges, entry.offset, {}, &ShardUpdateReply::Range::offset);
    const auto range = static_cast<size_t>(behind - sums.ranges.begin() - 1);
    const size_t at = sums.starts[range] + entry.offset - sums.ranges[range].offset;
    for (size_t j = 0; j < parities; ++j) {
      const auto to = std::span(sums.of_parity[j]).subspan(at, bytes.size());
      if (entry.coefficients.empty()) {
        add(to, bytes.bytes());
      } else if (j < entry.coefficients.size()) {
        coding::multiply_add(static_cast<uint8_t>(entry.coefficients[j]), bytes.bytes(), to);
      }
    }
  }
  return sums;
}

}  // namespace

ShardUpdates::Refusal ShardUpdates::make(const Change& change, MutableByteView deltas,
                                         const Allocate& allocate) {
  if (change.parts.empty()) return std::nullopt;
  const std::string item_key = shard_item_key(change.name);
  const ItemRef item = store_.find(item_key);
  if (!item) return refuse(Status::kNotHere, "no such shard");
  const auto layout = read_shard_item(store_, item);
  if (!layout) return refuse(Status::kNotHere, "no such shard");
  // Names of folded objects never change what they stand for.
  if (layout->version) return refuse(Status::kInvalid, "the shard was made by SHARD_PATCH");
  const size_t total = layout->header.payload_bytes;
  std::vector<PageRun> runs;
  runs.reserve(change.parts.size());
  for (const auto& part : change.parts) {
    if (part.offset > total || part.bytes.size() > total - part.offset) {
      return refuse(Status::kInvalid, "an extent is beyond the shard's end");
    }
    add_pages(runs, part.offset, part.bytes.size());
  }
  for (PageRun& run : runs) {
    const size_t begin = run.first * kPageBytes;
    run.bytes = OwnedBytes(std::min(run.end * kPageBytes, total) - begin);
    store_.read(item, layout->payload_at + begin, run.bytes.bytes());
    if (page_checksums(run.bytes.bytes()) !=
        read_checksums(store_, item, *layout, run.first, run.end - run.first)) {
      ++counters_.bad_pages;
      return refuse(Status::kBadPage, "a page's checksum does not match");
    }
  }
  // Whoever refers to it has found it before, and may be reading it: these read the old item.
  ItemRef copy;
  if (!store_.is_unshared(item)) {
    copy = allocate(item_key, store_.value_bytes(item));
    if (!copy) return refuse(Status::kNoSpace, "no memory for a copy of the shard");
    copy_value(store_, item, copy);
  }
  const ItemRef& target = copy ? copy : item;
  if (change.keeps) {
    for (const PageRun& kept : runs) keep_pages(change.name, kept.first, kept.bytes.bytes());
  }
  KeptPages* const kept = change.writes ? kept_.find(change.name) : nullptr;

  size_t run = 0;
  size_t told = 0;
  for (const auto& part : change.parts) {
    while (part.offset >= runs[run].end * kPageBytes) ++run;
    const MutableByteView place = runs[run].bytes.bytes().subspan(
        part.offset - runs[run].first * kPageBytes, part.bytes.size());
    if (change.writes) {
      const MutableByteView delta = deltas.subspan(told, part.bytes.size());
      std::ranges::copy(place, delta.begin());
      add(delta, part.bytes);
      std::ranges::copy(part.bytes, place.begin());
      if (kept != nullptr) leave_out(*kept, part, delta);
      told += part.bytes.size();
    } else {
      add(place, part.bytes);
    }
  }
  for (PageRun& changed : runs) {
    const std::vector<uint32_t> checksums = page_checksums(changed.bytes.bytes());
    store_.write(target, layout->payload_at + changed.first * kPageBytes, changed.bytes.bytes());
    store_.write(target, layout->checksums_at + changed.first * sizeof(uint32_t),
                 std::as_bytes(std::span(checksums)));
  }
  if (copy) store_.link(copy);
  ++counters_.shard_changes;
  for (const auto& part : change.parts) counters_.shard_changed_bytes += part.bytes.size();
  return std::nullopt;
}

ShardUpdates::Refusal ShardUpdates::fold(const ShardName& name, const Allocate& allocate) {
  if (logs_.bytes(name) == 0) return std::nullopt;
  ParityLogs::Log log = logs_.take(name);
  const Sums sums = sums_of(log, 1);
  Change change{.name = name, .parts = {}};
  change.parts.reserve(sums.ranges.size());
  for (size_t i = 0; i < sums.ranges.size(); ++i) {
    change.parts.push_back(
        {sums.ranges[i].offset,
         std::span(sums.of_parity.front()).subspan(sums.starts[i], sums.ranges[i].length)});
  }
  auto refusal = make(change, {}, allocate);
  // Nothing of it is in the shard, which must not be read without it.
  if (refusal && refusal->status != Status::kNotHere) logs_.restore(name, std::move(log));
  return refusal;
}

bool ShardUpdates::fold(const ShardName& name) {
  if (logs_.empty()) return true;
  const auto allocate = [this](std::string_view item_key, size_t value_bytes) {
    return store_.allocate(item_key, value_bytes, Urgency::kNewData);
  };
  return !fold(name, allocate);
}

void ShardUpdates::drop(const ShardName& name) {
  logs_.drop(name);
  collected_.drop(name);
  kept_.drop(name);
  held_.drop(name);
  touched_.drop(name);
  speculated_.drop(name);
}

ShardUpdates::Change ShardUpdates::change_of(const ShardUpdateRequest& request, ByteView payload) {
  const bool keeps = request.mode == ShardUpdateMode::kKeep;
  Change change{.name = request.name,
                .writes = keeps || request.mode == ShardUpdateMode::kSwap ||
                          request.mode == ShardUpdateMode::kTouch,
                .keeps = keeps,
                .parts = {}};
  change.parts.reserve(request.extents.size());
  for (const auto& extent : request.extents) {
    change.parts.push_back({extent.offset, payload.first(extent.length)});
    payload = payload.subspan(extent.length);
  }
  return change;
}

Answer ShardUpdates::serve(const ShardUpdateRequest& request, ByteView payload,
                           const Allocate& allocate) {
  if (request.mode == ShardUpdateMode::kDrop) return drop_held(request);
  if (auto wrong = check_extents(request, payload)) return refuse(Status::kInvalid, *wrong);
  Refusal refusal;
  OwnedBytes deltas(request.mode == ShardUpdateMode::kSwap ? payload.size() : 0);
  switch (request.mode) {
    case ShardUpdateMode::kSwap:
    case ShardUpdateMode::kAdd:
      refusal = make(change_of(request, payload), deltas.bytes(), allocate);
      break;
    case ShardUpdateMode::kLog:
      refusal = add_to_log(request, payload, allocate);
      break;
    case ShardUpdateMode::kFold:
      refusal = fold(request.name, allocate);
      if (!refusal) refusal = fold_epochs(request.name, allocate);
      break;
    case ShardUpdateMode::kCollect:
      refusal = collect(request, payload);
      break;
    case ShardUpdateMode::kHold:
      refusal = hold(request, payload);
      break;
    case ShardUpdateMode::kSpeculate:
      refusal = speculate(request, payload, allocate);
      break;
    case ShardUpdateMode::kSettle:
      refusal = settle(request, allocate);
      break;
    case ShardUpdateMode::kTouch:
      return touch(request, payload, allocate);
    case ShardUpdateMode::kTake:
      return take(request.name);
    case ShardUpdateMode::kKeep:
      return keep(request, payload, allocate);
    case ShardUpdateMode::kFlush:
      return flush(request.name, request.log_bytes);
    case ShardUpdateMode::kDrop:
      break;  // above, as it has no payload
  }
  if (refusal) return std::move(*refusal);
  Answer done = answer(Status::kOk, ShardUpdateReply{});
  done.payload = std::move(deltas);
  return done;
}

// Why the shard can not have these extents, or nothing. Under its latch.
ShardUpdates::Refusal ShardUpdates::check_place(const ShardUpdateRequest& request) const {
  const ItemRef item = store_.find(shard_item_key(request.name));
  if (!item) return refuse(Status::kNotHere, "no such shard");
  const auto layout = read_shard_item(store_, item);
  if (!layout) return refuse(Status::kNotHere, "no such shard");
  for (const auto& extent : request.extents) {
    if (uint64_t{extent.offset} + extent.length > layout->header.payload_bytes) {
      return refuse(Status::kInvalid, "an extent is beyond the shard's end");
    }
  }
  return std::nullopt;
}

std::optional<std::vector<ParityLogs::Entry>> ShardUpdates::entries_of(
    const ShardUpdateRequest& request, ByteView payload) {
  const size_t parities =
      request.extents.empty() ? 0 : request.coefficients.size() / request.extents.size();
  std::vector<ParityLogs::Entry> entries;
  entries.reserve(request.extents.size());
  for (const auto& extent : request.extents) {
    auto bytes = pool_.append(payload.first(extent.length), LogPool::Claim::kNew);
    if (!bytes) return std::nullopt;
    entries.push_back(
        {.offset = extent.offset,
         .coefficients = request.coefficients.substr(entries.size() * parities, parities),
         .bytes = std::move(*bytes)});
    payload = payload.subspan(extent.length);
  }
  return entries;
}

ShardUpdates::Refusal ShardUpdates::add_to_log(const ShardUpdateRequest& request, ByteView payload,
                                               const Allocate& allocate) {
  if (auto refusal = check_place(request)) return refusal;
  const size_t limit = request.log_bytes == 0
                           ? kMaxParityLogBytes
                           : std::min<size_t>(request.log_bytes, kMaxParityLogBytes);
  if (logs_.bytes(request.name) + payload.size() > limit) {
    if (auto refusal = fold(request.name, allocate)) return refusal;
  }
  auto entries = payload.size() > limit ? std::nullopt : entries_of(request, payload);
  // There is no room for it, so it goes where it would go later.
  if (!entries) return make(change_of(request, payload), {}, allocate);
  for (auto& entry : *entries) {
    logs_.append(request.name, std::move(entry), request.log_bytes != 0);
  }
  return std::nullopt;
}

ShardUpdates::Refusal ShardUpdates::collect(const ShardUpdateRequest& request, ByteView payload) {
  if (auto refusal = check_place(request)) return refusal;
  const size_t limit = std::min<size_t>(request.log_bytes, kMaxCollectedBytes);
  const bool is_full = collected_.bytes(request.name) + payload.size() > limit;
  auto entries = is_full ? std::nullopt : entries_of(request, payload);
  if (!entries) return refuse(Status::kLogFull, "the collector is full");
  for (auto& entry : *entries) collected_.append(request.name, std::move(entry), true);
  return std::nullopt;
}

Answer ShardUpdates::take(const ShardName& name) {
  const ParityLogs::Log log = collected_.take(name);
  size_t parities = 0;
  for (const auto& entry : log.entries) parities = std::max(parities, entry.coefficients.size());
  const Sums sums = sums_of(log, parities);
  Answer taken = answer(Status::kOk, ShardUpdateReply{sums.ranges});
  const size_t each = parities == 0 ? 0 : sums.of_parity.front().size();
  taken.payload = OwnedBytes(parities * each);
  for (size_t j = 0; j < parities; ++j) {
    std::ranges::copy(sums.of_parity[j], taken.payload.bytes().subspan(j * each, each).begin());
  }
  return taken;
}

}  // namespace elastripe::node
