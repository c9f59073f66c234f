#include "proxy/ops/objects/fold.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/patch_segment.h"
#include "proxy/ops/objects/prepare.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/log_copies.h"
#include "proxy/ops/records/read_tail.h"
#include "server-patches/node/format/fail_point.h"

namespace elastripe::objects {

namespace {

using node::Segment;

class Fold {
 public:
  Fold(OpsContext& ops, std::string key, bool takes)
      : ops_(ops), key_(std::move(key)), takes_(takes) {}

  Task<Result<FoldEnd>> run(TimePoint deadline) {
    return under_newest_map(ops_, deadline, [this](const MapPtr& map, TimePoint& until) {
      return attempt(map, until);
    });
  }

 private:
  Task<Result<FoldEnd>> attempt(MapPtr map, TimePoint& deadline) {
    if (!records::may_have_log(*map)) co_return FoldEnd::kNothing;
    const TimePoint began = ops_.clock.now();
    auto tail = co_await records::try_read_to_fold(ops_, map, key_, takes_, deadline);
    // It has taken it now, or may have.
    if (!tail || tail->log != nullptr) takes_ = false;
    if (!tail) co_return fail(tail.error());
    const RecordPtr record = tail->record;
    if (record == nullptr || !record->is_striped() || !is_live_now(ops_, *map, *record) ||
        tail->log == nullptr) {
      co_return FoldEnd::kNothing;
    }
    std::vector<SegmentPatch> foldings;
    std::vector<StagedPtr> rewritten;
    auto end = co_await fold(map, record, tail->log, foldings, rewritten, deadline);
    const bool is_unknown = !end && end.error().code == ErrorCode::kUnknownOutcome;
    const bool is_folded = end && (*end == FoldEnd::kFolded || *end == FoldEnd::kPart);
    if (is_folded) count_fold(ops_.clock.now() - began, *tail->log);
    for (const SegmentPatch& folding : foldings) {
      if (is_folded) {
        delete_patched(ops_, folding.old_shards());
      } else if (!is_unknown) {
        // Nothing will ever refer to them.
        drop_patch(ops_, folding);
      }
    }
    for (const StagedPtr& staged : rewritten) {
      staged->let_go();
      if (!is_folded && !is_unknown) {
        (void)ops_.background.try_spawn(abandon(ops_, staged));
      }
    }
    co_return end;
  }

  // The log was as old as it says at the beginning.
  void count_fold(Duration took, const LogView& log) {
    using std::chrono::duration_cast;
    const auto us = duration_cast<std::chrono::microseconds>(took).count();
    const auto ms = duration_cast<std::chrono::milliseconds>(took).count();
    ++ops_.counters.folded_logs;
    ops_.counters.fold_us += static_cast<uint64_t>(us);
    ops_.counters.folded_age_ms += log.age_ms + static_cast<uint64_t>(ms);
  }

  Task<Result<FoldEnd>> fold(MapPtr map, RecordPtr record, LogViewPtr log,
                             std::vector<SegmentPatch>& foldings, std::vector<StagedPtr>& rewritten,
                             TimePoint deadline) {
    const TimePoint began = ops_.clock.now();
    const node::Id128 txid = ops_.ids.next();
    const auto& segments = record->content.segments;
    uint64_t begin = 0;
    uint64_t bytes = 0;
    bool is_whole = true;
    for (const Segment& segment : segments) {
      // What nodes acknowledged longer ago they may have lost since (rule 6a). The rest has its
      // turn.
      is_whole = ops_.clock.now() - began <= kAcknowledgedLately / 2;
      if (!is_whole) break;
      auto pieces = overlaid(begin, segment.length, segment.folded_lsn, *log);
      if (!pieces) co_return fail(pieces.error());
      if (!pieces->empty()) {
        for (const Overlaid& piece : *pieces) bytes += piece.bytes.size();
        SegmentPatch& folding = foldings.emplace_back(
            SegmentPatch{key_, record->content.scheme, segment, segment, begin});
        auto patched =
            co_await patch_segment(ops_, map, folding, std::move(*pieces), txid, deadline);
        if (!patched) co_return fail(patched.error());
        if (*patched == PatchEnd::kMissing) {
          drop_patch(ops_, folding);
          auto written = co_await write_again(map, record, folding, log, rewritten, deadline);
          if (!written) co_return fail(written.error());
        }
        folding.after.folded_lsn = log->image.last;
      }
      begin += segment.length;
    }
    if (foldings.empty()) co_return is_whole ? FoldEnd::kNothing : FoldEnd::kAgain;
    if (ops_.clock.now() - began > kAcknowledgedLately) co_return FoldEnd::kAgain;
    fail_point(FailPoint::kAllPatched);
    const auto end = co_await commit(map, record, foldings, bytes, deadline);
    if (end && *end == FoldEnd::kFolded && !is_whole) co_return FoldEnd::kPart;
    co_return end;
  }

  Task<Result<FoldEnd>> commit(MapPtr map, RecordPtr record,
                               const std::vector<SegmentPatch>& foldings, uint64_t bytes,
                               TimePoint deadline) {
    records::Commit commit;
    commit.key = key_;
    commit.mutation = node::Mutation::kFold;
    commit.condition = node::Condition::kIfVersion;
    commit.condition_argument = record->meta.version;
    commit.known_version = record->meta.version;
    commit.base_version = record->meta.version;  // known before the first shard was made (rule 7)
    commit.content = record->content;
    for (const SegmentPatch& folding : foldings) {
      const auto place = std::ranges::find(record->content.segments, folding.before) -
                         record->content.segments.begin();
      commit.content.segments[static_cast<size_t>(place)] = folding.after;
    }
    auto result = co_await records::commit(ops_, map, commit, deadline);
    if (!result) co_return fail(result.error());
    if (result->status != records::CommitStatus::kCommitted) co_return FoldEnd::kAgain;
    fail_point(FailPoint::kFoldCommitted);
    ops_.cache.put(key_, result->record);
    ops_.counters.folded_bytes += bytes;
    co_return FoldEnd::kFolded;
  }

  // The segment's bytes, decoded where they have to be, with the log over them, in new shards.
  Task<Result<void>> write_again(MapPtr map, RecordPtr record, SegmentPatch& folding,
                                 LogViewPtr log, std::vector<StagedPtr>& rewritten,
                                 TimePoint deadline) {
    const Segment& before = folding.before;
    const auto geometry = geometry_of(folding.scheme, before);
    if (!geometry) co_return fail(geometry.error());
    const uint64_t memory =
        before.length + uint64_t{folding.scheme.m} * geometry->parity_shard_bytes(before.state);
    const auto permit = co_await ops_.memory.rebuilt.acquire(memory);
    const SegmentPtr segment(std::make_shared<const Segment>(before));
    auto read = co_await read_segment(ops_, map, folding.scheme, segment, {0, before.length},
                                      nullptr, deadline);
    if (!read) co_return fail(read.error());
    auto laid = lay_over(read->bytes.mutable_bytes(), folding.begin, before.folded_lsn, log.get());
    if (!laid) co_return fail(laid.error());
    auto staged = std::make_shared<StagedObject>();
    staged->key = key_;
    staged->scheme = folding.scheme;
    staged->degraded_writes = ops_.pools.pool_of(key_).degraded_writes;
    staged->segments.push_back(replacement_of(before, ops_.ids.next()));
    staged->segments.front().data = std::move(read->bytes);
    rewritten.push_back(staged);
    folding.after = before;  // nothing of it is to be deleted: `staged` is, if that fails
    auto prepared = co_await prepare_segment(ops_, map, staged, 0, deadline);
    if (!prepared) co_return fail(prepared.error());
    folding.after = segment_table(*staged).front();
    staged->let_go();
    co_return Result<void>{};
  }

  OpsContext& ops_;
  const std::string key_;
  bool takes_;
};

}  // namespace

Task<Result<FoldEnd>> fold_object(OpsContext& ops, std::string key, TimePoint deadline,
                                  bool takes) {
  Fold fold(ops, std::move(key), takes);
  co_return co_await fold.run(deadline);
}

}  // namespace elastripe::objects
