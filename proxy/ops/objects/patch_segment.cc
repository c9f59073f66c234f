#include "proxy/ops/objects/patch_segment.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "coding/delta.h"
#include "proxy/async/when_all.h"
#include "proxy/base/crc32c.h"
#include "proxy/ops/attempt.h"
#include "server-patches/node/format/crc32c.h"
#include "server-patches/node/format/fail_point.h"

namespace elastripe::objects {

namespace {

using node::Segment;
using node::ShardPatchMode;
using node::ShardPatchRequest;
using node::Status;

// A slice of the arithmetic between two turns of the loop.
constexpr size_t kStepBytes = 256 << 10;

// The shards that `a` names and `b` does not.
std::vector<ShardsOnNode> only_in(const coding::Scheme& scheme, const Segment& a,
                                  const Segment& b) {
  std::vector<ShardsOnNode> shards;
  for (size_t i = 0; i < a.placement.size(); ++i) {
    const node::ShardName name = shard_name(a, scheme, i);
    if (a.placement[i] == kNoNode || name == shard_name(b, scheme, i)) continue;
    shards.push_back({.node = a.placement[i], .names = {name}});
  }
  return shards;
}

// Bytes of one shard that change.
struct ShardChange {
  uint32_t offset = 0;
  ByteView bytes;
  uint64_t segment_offset = 0;  // of a data shard
};

class Patching {
 public:
  Patching(OpsContext& ops, MapPtr map, SegmentPatch& patch)
      : ops_(ops), map_(std::move(map)), patch_(patch) {}

  // Data first, whose nodes answer by how much they change, then all parities.
  Task<Result<PatchEnd>> run(std::vector<Overlaid> pieces, node::Id128 txid, TimePoint deadline) {
    const Segment& before = patch_.before;
    const auto is_up = [&](NodeId id) { return id != kNoNode && map_->is_up(id); };
    if (!map_->capabilities.has(node::Capability::kShardPatches) ||
        !map_->capabilities.has(node::Capability::kMovedShards) ||
        !std::ranges::all_of(before.placement, is_up)) {
      co_return PatchEnd::kMissing;
    }
    const auto geometry = geometry_of(patch_.scheme, before);
    if (!geometry) co_return fail(geometry.error());
    const auto changes = changes_of_data(*geometry, pieces, patch_.begin);
    for (const auto& [shard, _] : changes) {
      node::name_moved_shard(patch_.after, static_cast<size_t>(shard), txid);
    }
    node::name_parity_shards(patch_.after, patch_.scheme, txid);

    std::vector<Task<Result<std::optional<Buffer>>>> patches;
    patches.reserve(changes.size());
    for (const auto& [shard, of_shard] : changes) {
      patches.push_back(
          patch_shard(static_cast<size_t>(shard), ShardPatchMode::kWrite, of_shard, deadline));
    }
    std::vector<Buffer> answers;
    answers.reserve(changes.size());
    for (auto& patched : co_await when_all(std::move(patches))) {
      if (!patched) co_return fail(patched.error());
      if (!*patched) co_return PatchEnd::kMissing;
      answers.push_back(std::move(**patched));
    }
    fail_point(FailPoint::kDataPatched);
    std::vector<coding::DataDelta> deltas;
    size_t next = 0;
    for (const auto& [shard, of_shard] : changes) {
      const ByteView answer = answers[next++].bytes();
      size_t at = 0;
      for (const ShardChange& change : of_shard) {
        const ByteView delta = answer.subspan(at, change.bytes.size());
        at += delta.size();
        deltas.push_back({.shard = shard, .offset = change.offset, .bytes = delta});
        if (before.crc32c == 0) continue;
        const uint64_t behind = before.length - change.segment_offset - delta.size();
        patch_.after.crc32c = node::crc32c_changed(patch_.after.crc32c, delta, behind);
      }
    }
    coding::ParityDeltas sums(*geometry, before.state, deltas);
    while (sums.step(kStepBytes)) co_await ops_.clock.next_turn();
    co_return co_await patch_parities(sums, deadline);
  }

 private:
  // By data shard, ascending in each.
  static std::map<int, std::vector<ShardChange>> changes_of_data(
      const coding::SegmentGeometry& geometry, const std::vector<Overlaid>& pieces,
      uint64_t begin) {
    std::map<int, std::vector<ShardChange>> changes;
    for (const Overlaid& piece : pieces) {
      const uint64_t offset = piece.offset - begin;
      for (const coding::DataExtent& extent :
           coding::data_extents(geometry, offset, piece.bytes.size())) {
        changes[extent.shard].push_back(
            {static_cast<uint32_t>(extent.shard_offset),
             piece.bytes.subspan(extent.segment_offset - offset, extent.bytes),
             extent.segment_offset});
      }
    }
    for (auto& [_, of_shard] : changes) {
      std::ranges::sort(of_shard, {}, &ShardChange::offset);
    }
    return changes;
  }

  Task<Result<PatchEnd>> patch_parities(const coding::ParityDeltas& sums, TimePoint deadline) {
    std::vector<Task<Result<std::optional<Buffer>>>> patches;
    patches.reserve(patch_.scheme.m);
    for (int parity = 0; parity < patch_.scheme.m; ++parity) {
      const ByteView sum = sums.bytes(parity);
      std::vector<ShardChange> changes;
      changes.reserve(sums.ranges().size());
      size_t at = 0;
      for (const coding::ByteRange& range : sums.ranges()) {
        changes.push_back({static_cast<uint32_t>(range.offset), sum.subspan(at, range.bytes), 0});
        at += range.bytes;
      }
      patches.push_back(patch_shard(patch_.scheme.k_prime + static_cast<size_t>(parity),
                                    ShardPatchMode::kAdd, std::move(changes), deadline));
    }
    for (auto& patched : co_await when_all(std::move(patches))) {
      if (!patched) co_return fail(patched.error());
      if (!*patched) co_return PatchEnd::kMissing;
    }
    fail_point(FailPoint::kParitiesPatched);
    co_return PatchEnd::kPatched;
  }

  // What the node answered with, old XOR new of what it wrote; nothing: it has not got the shard,
  // or no room.
  Task<Result<std::optional<Buffer>>> patch_shard(size_t index, ShardPatchMode mode,
                                                  std::vector<ShardChange> changes,
                                                  TimePoint deadline) {
    const auto geometry = geometry_of(patch_.scheme, patch_.before);
    if (!geometry) co_return fail(geometry.error());
    const bool is_data = index < patch_.scheme.k_prime;
    ShardPatchRequest message;
    message.source = shard_name(patch_.before, patch_.scheme, index);
    message.header.name = shard_name(patch_.after, patch_.scheme, index);
    message.header.key = patch_.key;
    message.header.payload_bytes = static_cast<uint32_t>(
        is_data ? geometry->data_shard_bytes() : geometry->parity_shard_bytes(patch_.before.state));
    message.mode = mode;
    std::vector<Buffer> payload;
    size_t total = 0;
    message.extents.reserve(changes.size());
    payload.reserve(changes.size());
    for (const ShardChange& change : changes) {
      message.extents.push_back(
          {change.offset, static_cast<uint32_t>(change.bytes.size()), crc32c(change.bytes)});
      payload.push_back(Buffer::copy_of(change.bytes));
      total += change.bytes.size();
    }
    auto patch = question(message);
    patch.payload(payload);
    const NodeId to = patch_.before.placement[index];
    const auto answer =
        co_await ask(ops_.nodes, *map_, to, std::move(patch), call_deadline(ops_, deadline));
    if (!answer) co_return fail(answer.error());
    ops_.map.rooms()->note_free_bytes(to, answer->reply.header.free_bytes);
    const Status status = answer->status();
    if (status == Status::kNotHere || status == Status::kBadPage || status == Status::kNoSpace) {
      co_return std::nullopt;
    }
    if (answer->status() != Status::kOk) co_return fail(refusal(*map_, to, answer->reply));
    if (mode == ShardPatchMode::kWrite && answer->payload().size() != total) {
      co_return fail(malformed(*map_, to, "a patch answered with another length"));
    }
    co_return answer->reply.body.slice(answer->reply.header.args_bytes, answer->payload().size());
  }

  OpsContext& ops_;
  const MapPtr map_;
  SegmentPatch& patch_;
};

}  // namespace

std::vector<ShardsOnNode> SegmentPatch::old_shards() const {
  return only_in(scheme, before, after);
}

std::vector<ShardsOnNode> SegmentPatch::new_shards() const {
  return only_in(scheme, after, before);
}

Task<Result<PatchEnd>> patch_segment(OpsContext& ops, MapPtr map, SegmentPatch& patch,
                                     std::vector<Overlaid> pieces, node::Id128 txid,
                                     TimePoint deadline) {
  Patching patching(ops, std::move(map), patch);
  co_return co_await patching.run(std::move(pieces), txid, deadline);
}

void drop_patch(OpsContext& ops, const SegmentPatch& patch) {
  auto shards = patch.new_shards();
  if (shards.empty()) return;
  (void)ops.background.try_spawn(
      delete_shards(ops, std::move(shards), ops.clock.now() + ops.settings.node_timeout));
}

}  // namespace elastripe::objects
