#include "proxy/ops/objects/baselines/parity_updates.h"

#include <algorithm>

namespace elastripe::objects {

using node::ShardUpdateMode;

namespace {

// A slice of the arithmetic between two turns of the loop.
constexpr size_t kStepBytes = 256 << 10;
// What plr reserves beside a parity shard.
constexpr uint32_t kReservedBytes = 64 << 10;
// What the collector of cord takes for a segment.
constexpr uint32_t kCollectorBytes = 64 << 10;

// By how much data shards have changed, and where.
std::vector<coding::DataDelta> deltas_of(const ChangedSegment& changed) {
  std::vector<coding::DataDelta> deltas;
  for (const ShardUpdate& update : changed.data) {
    if (!update.is_done) continue;
    size_t at = 0;
    for (const auto& extent : update.message.extents) {
      deltas.push_back({.shard = static_cast<int>(update.index),
                        .offset = extent.offset,
                        .bytes = update.answer.bytes().subspan(at, extent.length)});
      at += extent.length;
    }
  }
  return deltas;
}

// The changes of each parity, ready for it.
Task<Result<void>> make_sums(OpsContext& ops, UpdateMethod method, ChangedSegment& changed) {
  const auto geometry = geometry_of(changed.scheme, changed.segment);
  if (!geometry) co_return fail(geometry.error());
  const auto deltas = deltas_of(changed);
  coding::ParityDeltas sums(*geometry, changed.segment.state, deltas);
  while (sums.step(kStepBytes)) {
    if (!co_await ops.clock.next_turn()) co_return fail(ErrorCode::kCancelled, "shutting down");
  }
  const bool is_logged = method == UpdateMethod::kPl || method == UpdateMethod::kPlr;
  changed.parities.clear();
  changed.parities.reserve(changed.scheme.m);
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

// The changes of the data as they are, with what each parity multiplies them by.
Result<void> make_collected(ChangedSegment& changed) {
  const auto geometry = geometry_of(changed.scheme, changed.segment);
  if (!geometry) return fail(geometry.error());
  const coding::Codec& codec = geometry->codec();
  const coding::Layout& layout = codec.layout();
  const size_t block_bytes = geometry->block_bytes();
  changed.parities.clear();
  ShardUpdate& update = changed.parities.emplace_back(
      changed.segment, changed.scheme, changed.scheme.k_prime, ShardUpdateMode::kCollect);
  update.message.log_bytes = kCollectorBytes;
  for (const coding::DataDelta& delta : deltas_of(changed)) {
    const auto blocks = layout.shard_blocks(delta.shard);
    for (size_t at = 0; at < delta.bytes.size();) {
      const size_t offset = delta.offset + at;
      const int block = blocks[offset / block_bytes];
      const int codeword = changed.segment.state == coding::State::kNarrow ? layout.stripe_of(block)
                                                                           : layout.row_of(block);
      const size_t in_block = offset % block_bytes;
      const size_t piece = std::min(delta.bytes.size() - at, block_bytes - in_block);
      update.add(static_cast<size_t>(codeword) * block_bytes + in_block,
                 delta.bytes.subspan(at, piece));
      for (int j = 0; j < codec.m(); ++j) {
        update.message.coefficients.push_back(static_cast<char>(codec.coefficient(j, delta.shard)));
      }
      at += piece;
    }
  }
  return {};
}

// All parities get what the collector had (Eq. 5 of the TSUE paper): it is one change for each
// place of a parity, whichever blocks it came from.
Result<std::vector<ShardUpdate>> adds_of(const coding::Scheme& scheme, const node::Segment& segment,
                                         const ShardUpdate& taken) {
  std::vector<ShardUpdate> adds;
  size_t each = 0;
  for (const auto& range : taken.ranges) each += range.length;
  if (taken.answer.size() != each * scheme.m) {
    return fail(ErrorCode::kUnknownOutcome, "a collector answered with another length");
  }
  adds.reserve(scheme.m);
  for (size_t parity = 0; parity < scheme.m && each > 0; ++parity) {
    ShardUpdate& add =
        adds.emplace_back(segment, scheme, scheme.k_prime + parity, ShardUpdateMode::kAdd);
    size_t at = parity * each;
    for (const auto& range : taken.ranges) {
      add.add(range.offset, taken.answer.bytes().subspan(at, range.length));
      at += range.length;
    }
  }
  return adds;
}

// What the collector has, and forgets.
Task<Result<std::vector<ShardUpdate>>> take_collected(OpsContext& ops, MapPtr map,
                                                      coding::Scheme scheme, node::Segment segment,
                                                      TimePoint deadline) {
  std::vector<ShardUpdate> take;
  take.emplace_back(segment, scheme, scheme.k_prime, ShardUpdateMode::kTake);
  auto taken = co_await send_updates(ops, map, take, deadline);
  if (!taken) co_return fail(taken.error());
  co_return adds_of(scheme, segment, take.front());
}

}  // namespace

Task<Result<void>> make_parity_updates(OpsContext& ops, UpdateMethod method,
                                       ChangedSegment& changed) {
  if (method == UpdateMethod::kCord) co_return make_collected(changed);
  co_return co_await make_sums(ops, method, changed);
}

Task<Result<void>> update_parities(OpsContext& ops, MapPtr map, ChangedSegment& changed,
                                   TimePoint deadline) {
  for (;;) {
    auto sent = co_await send_updates(ops, map, changed.flushed, deadline);
    if (!sent) co_return sent;
    changed.flushed.clear();
    sent = co_await send_updates(ops, map, changed.parities, deadline);
    if (!sent) co_return sent;
    if (!std::ranges::any_of(changed.parities, &ShardUpdate::is_full)) co_return Result<void>{};
    auto flushed = co_await take_collected(ops, map, changed.scheme, changed.segment, deadline);
    if (!flushed) co_return fail(flushed.error());
    changed.flushed = std::move(*flushed);
    changed.parities.front().is_full = false;
    if (!changed.flushed.empty()) continue;
    // It is empty, and has no room all the same.
    auto made = co_await make_sums(ops, UpdateMethod::kFo, changed);
    if (!made) co_return made;
  }
}

Task<Result<void>> drain_parities(OpsContext& ops, MapPtr map, coding::Scheme scheme,
                                  node::Segment segment, TimePoint deadline) {
  const auto is_up = [&](size_t shard) {
    return segment.placement[shard] != kNoNode && map->is_up(segment.placement[shard]);
  };
  const size_t first = scheme.k_prime;
  std::vector<ShardUpdate> updates;
  if (is_up(first)) {
    auto taken = co_await take_collected(ops, map, scheme, segment, deadline);
    if (!taken) co_return fail(taken.error());
    updates = std::move(*taken);
    std::erase_if(updates, [&](const ShardUpdate& update) { return !is_up(update.index); });
    auto sent = co_await send_updates(ops, map, updates, deadline);
    // A parity that is not there will be made of the data as it is now.
    if (!sent && sent.error().code != ErrorCode::kNotFound) co_return sent;
  }
  updates.clear();
  for (size_t shard = first; shard < segment.placement.size(); ++shard) {
    if (is_up(shard)) updates.emplace_back(segment, scheme, shard, ShardUpdateMode::kFold);
  }
  co_return co_await send_updates(ops, map, updates, deadline);
}

}  // namespace elastripe::objects
