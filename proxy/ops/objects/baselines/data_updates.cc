#include "proxy/ops/objects/baselines/data_updates.h"

#include <algorithm>

namespace elastripe::objects {

using node::ShardUpdateMode;

namespace {

// What dpu keeps of the pages of a data shard. When they are flushed, the half of them that was
// written last stays.
constexpr uint32_t kRetainedBytes = 128 << 10;
// A unit of the DataLog of tsue, which is flushed as a whole.
constexpr uint32_t kUnitBytes = 64 << 10;
// What parix writes to a data shard before the logs of its parities are folded.
constexpr uint32_t kSpeculatedBytes = 64 << 10;

ShardUpdateMode mode_of(UpdateMethod method) {
  switch (method) {
    case UpdateMethod::kDpu:
    case UpdateMethod::kTsue:
    case UpdateMethod::kTsue2:
      return ShardUpdateMode::kKeep;
    case UpdateMethod::kParix:
      return ShardUpdateMode::kTouch;
    default:
      return ShardUpdateMode::kSwap;
  }
}

// Pages that it has bytes in, at most.
uint32_t bytes_of_pages(const ShardUpdate& update) {
  size_t bytes = 0;
  for (const auto& extent : update.message.extents) {
    const size_t end = extent.offset + extent.length + node::kPageBytes - 1;
    bytes += (end / node::kPageBytes - extent.offset / node::kPageBytes) * node::kPageBytes;
  }
  return static_cast<uint32_t>(std::min<size_t>(bytes, UINT32_MAX));
}

// What has no room makes some, which leaves as much as it takes itself.
std::unique_ptr<ChangedSegment> flush_for(UpdateMethod method, ChangedSegment& changed) {
  auto flush = std::make_unique<ChangedSegment>(
      ChangedSegment{.scheme = changed.scheme, .segment = changed.segment});
  for (ShardUpdate& update : changed.data) {
    if (!update.is_full) continue;
    update.is_full = false;
    ShardUpdate& of_shard = flush->data.emplace_back(changed.segment, changed.scheme, update.index,
                                                     ShardUpdateMode::kFlush);
    if (method != UpdateMethod::kDpu) continue;
    const uint32_t own = std::min(bytes_of_pages(update), kRetainedBytes);
    of_shard.message.log_bytes = std::min(kRetainedBytes / 2, kRetainedBytes - own);
  }
  return flush;
}

// `flush` lives until this has ended.
Task<Result<void>> flush_kept(OpsContext& ops, UpdateMethod method, MapPtr map,
                              ChangedSegment& flush, TimePoint deadline) {
  auto sent = co_await send_updates(ops, map, flush.data, deadline);
  if (!sent) co_return sent;
  if (flush.parities.empty()) {
    auto made = co_await make_parity_updates(ops, method, flush);
    if (!made) co_return made;
  }
  co_return co_await update_parities(ops, method, map, flush, deadline);
}

}  // namespace

ShardUpdate data_update(UpdateMethod method, const node::Segment& segment,
                        const coding::Scheme& scheme, size_t shard) {
  ShardUpdate update(segment, scheme, shard, mode_of(method));
  if (method == UpdateMethod::kDpu) update.message.log_bytes = kRetainedBytes;
  if (method == UpdateMethod::kTsue || method == UpdateMethod::kTsue2) {
    update.message.log_bytes = kUnitBytes;
  }
  if (method == UpdateMethod::kParix) update.message.log_bytes = kSpeculatedBytes;
  return update;
}

Task<Result<void>> write_data_shards(OpsContext& ops, UpdateMethod method, MapPtr map,
                                     ChangedSegment& changed, TimePoint deadline) {
  for (;;) {
    if (changed.flush != nullptr) {
      auto flushed = co_await flush_kept(ops, method, map, *changed.flush, deadline);
      if (!flushed) co_return flushed;
      changed.flush.reset();
    }
    auto sent = co_await send_updates(ops, map, changed.data, deadline);
    if (!sent) co_return sent;
    if (!std::ranges::any_of(changed.data, &ShardUpdate::is_full)) co_return Result<void>{};
    changed.flush = flush_for(method, changed);
  }
}

}  // namespace elastripe::objects
