#include "proxy/ops/objects/baselines/parity_updates.h"

#include <algorithm>
#include <iterator>

namespace elastripe::objects {

using node::ShardUpdateMode;

namespace {

// A slice of the arithmetic between two turns of the loop.
constexpr size_t kStepBytes = 256 << 10;
// What plr reserves beside a parity shard.
constexpr uint32_t kReservedBytes = 64 << 10;
// What the collector of cord takes for a segment.
constexpr uint32_t kCollectorBytes = 64 << 10;
// What the DeltaLog of tsue takes for a segment, and its copy, which may be told later to drop what
// it has.
constexpr uint32_t kDeltaLogBytes = 256 << 10;
constexpr uint32_t kDeltaCopyBytes = 512 << 10;

using Deltas = std::vector<coding::DataDelta>;

// By how much data shards have changed, and where, as far as they have told.
Result<Deltas> deltas_of(const ChangedSegment& changed) {
  const auto geometry = geometry_of(changed.scheme, changed.segment);
  if (!geometry) return fail(geometry.error());
  Deltas deltas;
  for (const ShardUpdate& update : changed.data) {
    if (!update.is_done) continue;
    size_t at = 0;
    for (const auto& range : update.changed_ranges()) {
      if (range.length > update.answer.size() - at ||
          size_t{range.offset} + range.length > geometry->data_shard_bytes()) {
        return fail(ErrorCode::kUnknownOutcome, "a shard tells a change of bytes that it has not");
      }
      deltas.push_back({.shard = static_cast<int>(update.index),
                        .offset = range.offset,
                        .bytes = update.answer.bytes().subspan(at, range.length)});
      at += range.length;
    }
  }
  return deltas;
}

// The changes of each parity, ready for it. `deltas` are those of `changed`.
Task<Result<void>> add_sums(OpsContext& ops, UpdateMethod method, ChangedSegment& changed,
                            const Deltas& deltas) {
  const auto geometry = geometry_of(changed.scheme, changed.segment);
  if (!geometry) co_return fail(geometry.error());
  coding::ParityDeltas sums(*geometry, changed.segment.state, deltas);
  while (sums.step(kStepBytes)) {
    if (!co_await ops.clock.next_turn()) co_return fail(ErrorCode::kCancelled, "shutting down");
  }
  const bool is_logged =
      method == UpdateMethod::kPl || method == UpdateMethod::kPlr || method == UpdateMethod::kTsue2;
  changed.parities.reserve(changed.parities.size() + changed.scheme.m);
  for (int parity = 0; parity < changed.scheme.m; ++parity) {
    ShardUpdate& update = changed.parities.emplace_back(
        changed.segment, changed.scheme, changed.scheme.k_prime + static_cast<size_t>(parity),
        is_logged ? ShardUpdateMode::kLog : ShardUpdateMode::kAdd);
    update.message.log_bytes = method == UpdateMethod::kPlr ? kReservedBytes : 0;
    size_t at = 0;
    for (const coding::ByteRange& range : sums.ranges()) {
      update.add(range.offset, sums.bytes(parity).subspan(at, range.bytes));
      at += range.bytes;
    }
  }
  co_return Result<void>{};
}

// Calls `use(offset, bytes)` for the parts of bytes of a data shard that lie in one block each, by
// where they concern the parities.
template <class Use>
void for_each_block(const ChangedSegment& changed, const coding::SegmentGeometry& geometry,
                    const coding::DataDelta& delta, Use use) {
  const coding::Layout& layout = geometry.codec().layout();
  const size_t block_bytes = geometry.block_bytes();
  const auto blocks = layout.shard_blocks(delta.shard);
  for (size_t at = 0; at < delta.bytes.size();) {
    const size_t offset = delta.offset + at;
    const int block = blocks[offset / block_bytes];
    const int codeword = changed.segment.state == coding::State::kNarrow ? layout.stripe_of(block)
                                                                         : layout.row_of(block);
    const size_t in_block = offset % block_bytes;
    const size_t piece = std::min(delta.bytes.size() - at, block_bytes - in_block);
    use(static_cast<size_t>(codeword) * block_bytes + in_block, delta.bytes.subspan(at, piece));
    at += piece;
  }
}

// What data shards have and had, for all parities (PARIX).
Result<void> add_speculated(ChangedSegment& changed) {
  const auto geometry = geometry_of(changed.scheme, changed.segment);
  if (!geometry) return fail(geometry.error());
  for (const ShardUpdate& update : changed.data) {
    if (!update.is_done || update.epoch == 0) continue;
    const bool is_over = update.message.mode == ShardUpdateMode::kFlush;
    ShardUpdate told(changed.segment, changed.scheme, changed.scheme.k_prime,
                     is_over ? ShardUpdateMode::kSettle : ShardUpdateMode::kSpeculate);
    const auto add = [&](size_t offset, ByteView bytes) {
      for_each_block(changed, *geometry,
                     {.shard = static_cast<int>(update.index), .offset = offset, .bytes = bytes},
                     [&](size_t at, ByteView piece) { told.add(at, piece); });
    };
    size_t at = 0;
    for (const auto& range : update.ranges) {
      if (range.length > update.answer.size() - at ||
          size_t{range.offset} + range.length > geometry->data_shard_bytes()) {
        return fail(ErrorCode::kUnknownOutcome, "a shard tells of bytes that it has not");
      }
      add(range.offset, update.answer.bytes().subspan(at, range.length));
      at += range.length;
    }
    told.message.originals = static_cast<uint32_t>(told.message.extents.size());
    for (size_t i = 0; !is_over && i < update.pieces.size(); ++i) {
      add(update.message.extents[i].offset, update.pieces[i]);
    }
    told.message.source = static_cast<uint8_t>(update.index);
    told.message.epoch = update.epoch;
    told.message.serial = update.serial;
    for (int parity = 0; parity < changed.scheme.m; ++parity) {
      ShardUpdate& own = changed.parities.emplace_back(
          changed.segment, changed.scheme, changed.scheme.k_prime + static_cast<size_t>(parity),
          told.message.mode);
      const node::ShardName name = own.message.name;
      own.message = told.message;
      own.message.name = name;
      own.message.coefficient = geometry->codec().coefficient(parity, told.message.source);
      own.pieces = told.pieces;
    }
  }
  return {};
}

// The changes of the data as they are, with what each parity multiplies them by.
Result<void> add_collected(UpdateMethod method, ChangedSegment& changed, const Deltas& deltas) {
  const auto geometry = geometry_of(changed.scheme, changed.segment);
  if (!geometry) return fail(geometry.error());
  const coding::Codec& codec = geometry->codec();
  const size_t first = changed.scheme.k_prime;
  ShardUpdate update(changed.segment, changed.scheme, first, ShardUpdateMode::kCollect);
  for (const coding::DataDelta& delta : deltas) {
    for_each_block(changed, *geometry, delta, [&](size_t offset, ByteView piece) {
      update.add(offset, piece);
      for (int j = 0; j < codec.m(); ++j) {
        update.message.coefficients.push_back(static_cast<char>(codec.coefficient(j, delta.shard)));
      }
    });
  }
  update.message.log_bytes = method == UpdateMethod::kTsue ? kDeltaLogBytes : kCollectorBytes;
  if (method == UpdateMethod::kTsue && changed.scheme.m > 1) {
    ShardUpdate& copy = changed.parities.emplace_back(changed.segment, changed.scheme, first + 1,
                                                      ShardUpdateMode::kCollect);
    copy.copy_bytes_of(update);
    copy.message.log_bytes = kDeltaCopyBytes;
    copy.is_copy = true;
  }
  changed.parities.push_back(std::move(update));
  return {};
}

// The node of the next shard holds what that of a data shard keeps, until that is flushed.
void add_replicas(ChangedSegment& changed) {
  for (const ShardUpdate& update : changed.data) {
    const auto add = [&](ShardUpdateMode mode) -> ShardUpdate& {
      return changed.parities.emplace_back(changed.segment, changed.scheme, update.index + 1, mode);
    };
    if (update.message.mode == ShardUpdateMode::kKeep) {
      ShardUpdate& hold = add(ShardUpdateMode::kHold);
      hold.copy_bytes_of(update);
      hold.is_copy = true;
    } else if (update.message.mode == ShardUpdateMode::kFlush && !update.ranges.empty()) {
      ShardUpdate& drop = add(ShardUpdateMode::kDrop);
      drop.message.extents.reserve(update.ranges.size());
      for (const auto& range : update.ranges) {
        drop.message.extents.push_back({range.offset, range.length, 0});
      }
    }
  }
}

// All parities get what the collector had (Eq. 5 of the TSUE paper): it is one change for each
// place of a parity, whichever blocks it came from.
Result<std::vector<ShardUpdate>> changes_of(UpdateMethod method, const coding::Scheme& scheme,
                                            const node::Segment& segment,
                                            const ShardUpdate& taken) {
  std::vector<ShardUpdate> changes;
  size_t each = 0;
  for (const auto& range : taken.ranges) each += range.length;
  if (taken.answer.size() != each * scheme.m) {
    return fail(ErrorCode::kUnknownOutcome, "a collector answered with another length");
  }
  if (each == 0) return changes;
  const bool is_tsue = method == UpdateMethod::kTsue;
  changes.reserve(scheme.m + size_t{1});
  for (size_t parity = 0; parity < scheme.m; ++parity) {
    ShardUpdate& change =
        changes.emplace_back(segment, scheme, scheme.k_prime + parity,
                             is_tsue ? ShardUpdateMode::kLog : ShardUpdateMode::kAdd);
    size_t at = parity * each;
    for (const auto& range : taken.ranges) {
      change.add(range.offset, taken.answer.bytes().subspan(at, range.length));
      at += range.length;
    }
  }
  if (is_tsue && scheme.m > 1) {  // the copy
    changes.emplace_back(segment, scheme, scheme.k_prime + size_t{1}, ShardUpdateMode::kDrop);
  }
  return changes;
}

// What the collector has, and forgets.
Task<Result<std::vector<ShardUpdate>>> take_collected(OpsContext& ops, UpdateMethod method,
                                                      MapPtr map, coding::Scheme scheme,
                                                      node::Segment segment, TimePoint deadline) {
  std::vector<ShardUpdate> take;
  take.emplace_back(segment, scheme, scheme.k_prime, ShardUpdateMode::kTake);
  auto taken = co_await send_updates(ops, map, take, deadline);
  if (!taken) co_return fail(taken.error());
  co_return changes_of(method, scheme, segment, take.front());
}

}  // namespace

Task<Result<void>> make_parity_updates(OpsContext& ops, UpdateMethod method,
                                       ChangedSegment& changed) {
  changed.parities.clear();
  const auto deltas = deltas_of(changed);
  if (!deltas) co_return fail(deltas.error());
  add_replicas(changed);
  auto speculated = add_speculated(changed);
  if (!speculated) co_return speculated;
  if (deltas->empty()) co_return Result<void>{};
  if (method == UpdateMethod::kCord || method == UpdateMethod::kTsue) {
    co_return add_collected(method, changed, *deltas);
  }
  co_return co_await add_sums(ops, method, changed, *deltas);
}

Task<Result<void>> update_parities(OpsContext& ops, UpdateMethod method, MapPtr map,
                                   ChangedSegment& changed, TimePoint deadline) {
  for (;;) {
    auto sent = co_await send_updates(ops, map, changed.flushed, deadline);
    if (!sent) co_return sent;
    changed.flushed.clear();
    sent = co_await send_updates(ops, map, changed.parities, deadline);
    if (!sent) co_return sent;
    const auto full = std::ranges::find_if(changed.parities, &ShardUpdate::is_full);
    if (full == changed.parities.end()) co_return Result<void>{};
    auto flushed =
        co_await take_collected(ops, method, map, changed.scheme, changed.segment, deadline);
    if (!flushed) co_return fail(flushed.error());
    changed.flushed = std::move(*flushed);
    full->is_full = false;
    if (!changed.flushed.empty()) continue;
    // It is empty, and has no room all the same.
    changed.parities.erase(full);
    const auto deltas = deltas_of(changed);
    if (!deltas) co_return fail(deltas.error());
    auto added = co_await add_sums(ops, UpdateMethod::kFo, changed, *deltas);
    if (!added) co_return added;
  }
}

namespace {

// `changed` has what nodes have given away until the parities have it.
Task<Result<void>> try_drain(OpsContext& ops, MapPtr map, ChangedSegment& changed,
                             TimePoint deadline) {
  const coding::Scheme& scheme = changed.scheme;
  const node::Segment& segment = changed.segment;
  const size_t first = scheme.k_prime;
  const auto is_up = [&](size_t shard) {
    return segment.placement[shard] != kNoNode && map->is_up(segment.placement[shard]);
  };
  // A shard that is not there will be made of the others as they are now.
  const auto is_over = [](const Result<void>& sent) {
    return !sent && sent.error().code != ErrorCode::kNotFound;
  };
  for (size_t shard = 0; shard < first; ++shard) {
    if (is_up(shard)) changed.data.emplace_back(segment, scheme, shard, ShardUpdateMode::kFlush);
  }
  auto sent = co_await send_updates(ops, map, changed.data, deadline);
  if (is_over(sent)) co_return sent;
  auto made = co_await make_parity_updates(ops, UpdateMethod::kFo, changed);
  if (!made) co_return made;
  if (is_up(first)) {
    auto taken = co_await take_collected(ops, UpdateMethod::kCord, map, scheme, segment, deadline);
    if (!taken) co_return fail(taken.error());
    std::ranges::move(*taken, std::back_inserter(changed.parities));
  }
  std::erase_if(changed.parities, [&](const ShardUpdate& update) { return !is_up(update.index); });
  sent = co_await send_updates(ops, map, changed.parities, deadline);
  if (is_over(sent)) co_return sent;

  // Replicas of what is drained now.
  std::vector<ShardUpdate> rest;
  for (size_t shard = 1; shard < segment.placement.size(); ++shard) {
    if (!is_up(shard)) continue;
    if (shard >= first) rest.emplace_back(segment, scheme, shard, ShardUpdateMode::kFold);
    if (shard > first + 1) continue;
    ShardUpdate& drop = rest.emplace_back(segment, scheme, shard, ShardUpdateMode::kDrop);
    if (shard <= first) drop.message.extents.push_back({0, UINT32_MAX, 0});
  }
  co_return co_await send_updates(ops, map, rest, deadline);
}

// Whether something was given away that some parity has not got.
bool is_on_its_way(const ChangedSegment& changed) {
  if (!changed.parities.empty()) {
    return !std::ranges::all_of(changed.parities, &ShardUpdate::is_done);
  }
  return std::ranges::any_of(changed.data, [](const ShardUpdate& update) {
    return update.is_done && !update.answer.empty();
  });
}

}  // namespace

Task<Result<void>> drain_parities(OpsContext& ops, MapPtr map, coding::Scheme scheme,
                                  node::Segment segment, TimePoint deadline) {
  ChangedSegment changed{.scheme = scheme, .segment = std::move(segment)};
  auto drained = co_await try_drain(ops, std::move(map), changed, deadline);
  // Once more, it would find nothing, and seem to be done.
  if (!drained && is_on_its_way(changed)) {
    co_return fail(ErrorCode::kUnknownOutcome, "parities lack what was flushed: {}",
                   drained.error().message);
  }
  co_return drained;
}

}  // namespace elastripe::objects
