#include "proxy/ops/jobs/fold.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "coding/delta.h"
#include "proxy/async/when_all.h"
#include "proxy/base/crc32c.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/overlay.h"
#include "proxy/ops/objects/prepare.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/log_copies.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/shards.h"
#include "server-patches/node/format/crc32c.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::jobs {

namespace {

using node::Segment;
using node::ShardPatchMode;
using node::ShardPatchRequest;
using node::Status;
using objects::Overlaid;

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

// A segment on its way: what it is now, and what it shall be.
struct Folding {
  std::string key;
  coding::Scheme scheme;
  Segment before;
  Segment after;
  uint64_t begin = 0;  // in the object
};

enum class PatchEnd : uint8_t {
  kPatched,
  kMissing,  // a shard is not there, or not intact: the segment has to be written again
};

class Fold {
 public:
  Fold(OpsContext& ops, std::string key) : ops_(ops), key_(std::move(key)) {}

  Task<Result<FoldEnd>> run(TimePoint deadline) {
    return under_newest_map(ops_, deadline, [this](const MapPtr& map, TimePoint& until) {
      return attempt(map, until);
    });
  }

 private:
  Task<Result<FoldEnd>> attempt(MapPtr map, TimePoint& deadline) {
    if (!records::may_have_log(*map)) co_return FoldEnd::kNothing;
    auto tail = co_await records::try_read_updated(ops_, map, key_, /*if_version=*/0, /*offset=*/0,
                                                   UINT64_MAX, deadline);
    if (!tail) co_return fail(tail.error());
    const RecordPtr record = tail->record;
    if (record == nullptr || !record->is_striped() || !is_live_now(ops_, *map, *record) ||
        tail->log == nullptr) {
      co_return FoldEnd::kNothing;
    }
    std::vector<Folding> foldings;
    std::vector<objects::StagedPtr> rewritten;
    auto end = co_await fold(map, record, tail->log, foldings, rewritten, deadline);
    const bool is_unknown = !end && end.error().code == ErrorCode::kUnknownOutcome;
    const bool is_folded = end && *end == FoldEnd::kFolded;
    for (const Folding& folding : foldings) {
      if (is_folded) {
        delete_after_grace(ops_, only_in(folding.scheme, folding.before, folding.after));
      } else if (!is_unknown) {
        // Nothing will ever refer to them.
        delete_after_grace(ops_, only_in(folding.scheme, folding.after, folding.before));
      }
    }
    for (const objects::StagedPtr& staged : rewritten) {
      staged->let_go();
      if (!is_folded && !is_unknown) {
        (void)ops_.background.try_spawn(objects::abandon(ops_, staged));
      }
    }
    co_return end;
  }

  Task<Result<FoldEnd>> fold(MapPtr map, RecordPtr record, LogViewPtr log,
                             std::vector<Folding>& foldings,
                             std::vector<objects::StagedPtr>& rewritten, TimePoint deadline) {
    const TimePoint began = ops_.clock.now();
    const node::Id128 txid = ops_.ids.next();
    const auto& segments = record->content.segments;
    uint64_t begin = 0;
    uint64_t bytes = 0;
    for (const Segment& segment : segments) {
      // What nodes acknowledged longer ago they may have lost since (rule 6a). The rest has its
      // turn.
      if (ops_.clock.now() - began > objects::kAcknowledgedLately / 2) break;
      auto pieces = objects::overlaid(begin, segment.length, segment.folded_lsn, *log);
      if (!pieces) co_return fail(pieces.error());
      if (!pieces->empty()) {
        for (const Overlaid& piece : *pieces) bytes += piece.bytes.size();
        Folding& folding =
            foldings.emplace_back(Folding{key_, record->content.scheme, segment, segment, begin});
        auto patched = co_await patch(map, folding, *pieces, txid, deadline);
        if (!patched) co_return fail(patched.error());
        if (*patched == PatchEnd::kMissing) {
          delete_after_grace(ops_, only_in(folding.scheme, folding.after, folding.before));
          auto written = co_await write_again(map, record, folding, log, rewritten, deadline);
          if (!written) co_return fail(written.error());
        }
        folding.after.folded_lsn = log->image.last;
      }
      begin += segment.length;
    }
    if (foldings.empty()) co_return FoldEnd::kNothing;
    if (ops_.clock.now() - began > objects::kAcknowledgedLately) co_return FoldEnd::kAgain;
    co_return co_await commit(map, record, foldings, bytes, deadline);
  }

  Task<Result<FoldEnd>> commit(MapPtr map, RecordPtr record, const std::vector<Folding>& foldings,
                               uint64_t bytes, TimePoint deadline) {
    records::Commit commit;
    commit.key = key_;
    commit.mutation = node::Mutation::kFold;
    commit.condition = node::Condition::kIfVersion;
    commit.condition_argument = record->meta.version;
    commit.known_version = record->meta.version;
    commit.base_version = record->meta.version;  // known before the first shard was made (rule 7)
    commit.content = record->content;
    for (const Folding& folding : foldings) {
      const auto place = std::ranges::find(record->content.segments, folding.before) -
                         record->content.segments.begin();
      commit.content.segments[static_cast<size_t>(place)] = folding.after;
    }
    auto result = co_await records::commit(ops_, map, commit, deadline);
    if (!result) co_return fail(result.error());
    if (result->status != records::CommitStatus::kCommitted) co_return FoldEnd::kAgain;
    ops_.cache.put(key_, result->record);
    ++ops_.counters.folded_logs;
    ops_.counters.folded_bytes += bytes;
    co_return FoldEnd::kFolded;
  }

  // Makes new shards of those that change: of the data first, whose nodes answer by how much, then
  // of all parities.
  Task<Result<PatchEnd>> patch(MapPtr map, Folding& folding, const std::vector<Overlaid>& pieces,
                               node::Id128 txid, TimePoint deadline) {
    const Segment& before = folding.before;
    const auto is_up = [&](NodeId id) { return id != kNoNode && map->is_up(id); };
    if (!map->capabilities.has(node::Capability::kShardPatches) ||
        !map->capabilities.has(node::Capability::kMovedShards) ||
        !std::ranges::all_of(before.placement, is_up)) {
      co_return PatchEnd::kMissing;
    }
    const auto geometry = geometry_of(folding.scheme, before);
    if (!geometry) co_return fail(geometry.error());
    const auto changes = changes_of_data(*geometry, pieces, folding.begin);
    for (const auto& [shard, _] : changes) {
      node::name_moved_shard(folding.after, static_cast<size_t>(shard), txid);
    }
    node::name_parity_shards(folding.after, folding.scheme, txid);

    std::vector<Task<Result<std::optional<Buffer>>>> patches;
    patches.reserve(changes.size());
    for (const auto& [shard, of_shard] : changes) {
      patches.push_back(patch_shard(map, folding, static_cast<size_t>(shard),
                                    ShardPatchMode::kWrite, of_shard, deadline));
    }
    std::vector<Buffer> answers;
    answers.reserve(changes.size());
    for (auto& patched : co_await when_all(std::move(patches))) {
      if (!patched) co_return fail(patched.error());
      if (!*patched) co_return PatchEnd::kMissing;
      answers.push_back(std::move(**patched));
    }
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
        folding.after.crc32c = node::crc32c_changed(folding.after.crc32c, delta, behind);
      }
    }
    coding::ParityDeltas sums(*geometry, before.state, deltas);
    while (sums.step(kStepBytes)) co_await ops_.clock.next_turn();
    co_return co_await patch_parities(map, folding, sums, deadline);
  }

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

  Task<Result<PatchEnd>> patch_parities(MapPtr map, const Folding& folding,
                                        const coding::ParityDeltas& sums, TimePoint deadline) {
    std::vector<Task<Result<std::optional<Buffer>>>> patches;
    patches.reserve(folding.scheme.m);
    for (int parity = 0; parity < folding.scheme.m; ++parity) {
      const ByteView sum = sums.bytes(parity);
      std::vector<ShardChange> changes;
      changes.reserve(sums.ranges().size());
      size_t at = 0;
      for (const coding::ByteRange& range : sums.ranges()) {
        changes.push_back({static_cast<uint32_t>(range.offset), sum.subspan(at, range.bytes), 0});
        at += range.bytes;
      }
      patches.push_back(patch_shard(map, folding,
                                    folding.scheme.k_prime + static_cast<size_t>(parity),
                                    ShardPatchMode::kAdd, std::move(changes), deadline));
    }
    for (auto& patched : co_await when_all(std::move(patches))) {
      if (!patched) co_return fail(patched.error());
      if (!*patched) co_return PatchEnd::kMissing;
    }
    co_return PatchEnd::kPatched;
  }

  // What the node answered with, old XOR new of what it wrote; nothing: it has not got the shard.
  Task<Result<std::optional<Buffer>>> patch_shard(MapPtr map, const Folding& folding, size_t index,
                                                  ShardPatchMode mode,
                                                  std::vector<ShardChange> changes,
                                                  TimePoint deadline) {
    const auto geometry = geometry_of(folding.scheme, folding.before);
    if (!geometry) co_return fail(geometry.error());
    const bool is_data = index < folding.scheme.k_prime;
    ShardPatchRequest message;
    message.source = shard_name(folding.before, folding.scheme, index);
    message.header.name = shard_name(folding.after, folding.scheme, index);
    message.header.key = folding.key;
    message.header.payload_bytes =
        static_cast<uint32_t>(is_data ? geometry->data_shard_bytes()
                                      : geometry->parity_shard_bytes(folding.before.state));
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
    const NodeId to = folding.before.placement[index];
    const auto answer =
        co_await ask(ops_.nodes, *map, to, std::move(patch), call_deadline(ops_, deadline));
    if (!answer) co_return fail(answer.error());
    ops_.map.rooms()->note_free_bytes(to, answer->reply.header.free_bytes);
    if (answer->status() == Status::kNotHere || answer->status() == Status::kBadPage) {
      co_return std::nullopt;
    }
    if (answer->status() != Status::kOk) co_return fail(refusal(*map, to, answer->reply));
    if (mode == ShardPatchMode::kWrite && answer->payload().size() != total) {
      co_return fail(malformed(*map, to, "a patch answered with another length"));
    }
    co_return answer->reply.body.slice(answer->reply.header.args_bytes, answer->payload().size());
  }

  // The segment's bytes, decoded where they have to be, with the log over them, in new shards.
  Task<Result<void>> write_again(MapPtr map, RecordPtr record, Folding& folding, LogViewPtr log,
                                 std::vector<objects::StagedPtr>& rewritten, TimePoint deadline) {
    const Segment& before = folding.before;
    const auto geometry = geometry_of(folding.scheme, before);
    if (!geometry) co_return fail(geometry.error());
    const uint64_t memory =
        before.length + uint64_t{folding.scheme.m} * geometry->parity_shard_bytes(before.state);
    const auto permit = co_await ops_.memory.rebuilt.acquire(memory);
    const objects::SegmentPtr segment(std::make_shared<const Segment>(before));
    auto read = co_await objects::read_segment(ops_, map, folding.scheme, segment,
                                               {0, before.length}, nullptr, deadline);
    if (!read) co_return fail(read.error());
    auto laid =
        objects::lay_over(read->bytes.mutable_bytes(), folding.begin, before.folded_lsn, log.get());
    if (!laid) co_return fail(laid.error());
    auto staged = std::make_shared<objects::StagedObject>();
    staged->key = key_;
    staged->scheme = folding.scheme;
    staged->degraded_writes = ops_.pools.pool_of(key_).degraded_writes;
    staged->segments.push_back(objects::replacement_of(before, ops_.ids.next()));
    staged->segments.front().data = std::move(read->bytes);
    rewritten.push_back(staged);
    folding.after = before;  // nothing of it is to be deleted: `staged` is, if that fails
    auto prepared = co_await objects::prepare_segment(ops_, map, staged, 0, deadline);
    if (!prepared) co_return fail(prepared.error());
    folding.after = objects::segment_table(*staged).front();
    staged->let_go();
    co_return Result<void>{};
  }

  OpsContext& ops_;
  const std::string key_;
};

}  // namespace

Task<Result<FoldEnd>> fold_object(OpsContext& ops, std::string key, TimePoint deadline) {
  Fold fold(ops, std::move(key));
  co_return co_await fold.run(deadline);
}

}  // namespace elastripe::jobs
