// UPDATE: new bytes in a part of a value. Those of striped objects go to an update log, where the
// pool has them, they fit, and there is room (logged_update.h). What else there is is written
// again: an inline record, or of a striped object the segments that the bytes lie in, or that have
// others in the log, under fresh names. The record's commit takes them in place of the old ones,
// whose shards are deleted after a grace. So readers meet the old value or the new one, over any
// number of segments, and the other segments are not touched.
#include <algorithm>

#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/logged_update.h"
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/objects/overlay.h"
#include "proxy/ops/objects/prepare.h"
#include "proxy/ops/objects/put.h"
#include "proxy/ops/records/read_tail.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::objects {

using node::Segment;

namespace {

// What `range` has of the bytes from `begin` on.
ByteRange part_within(ByteRange range, uint64_t begin, uint64_t length) {
  const uint64_t first = std::max(range.offset, begin);
  const uint64_t end = std::min(range.offset + range.length, begin + length);
  return {first, std::max(first, end) - first};
}

bool is_logged(const LogView* log, const Segment& segment, uint64_t begin) {
  return has_over(log, begin, segment.length, segment.folded_lsn);
}

// What it takes of memory to write a range of the object, and what the log has of others: one
// segment after the other, with its parities.
uint64_t memory_of(const node::RecordContent& content, ByteRange range, const LogView* log) {
  uint64_t most = 0;
  uint64_t begin = 0;
  for (const Segment& segment : content.segments) {
    const auto geometry = geometry_of(content.scheme, segment);
    const bool is_written =
        part_within(range, begin, segment.length).length > 0 || is_logged(log, segment, begin);
    if (geometry && is_written) {
      most = std::max(most, segment.length + uint64_t{content.scheme.m} *
                                                 geometry->parity_shard_bytes(segment.state));
    }
    begin += segment.length;
  }
  return most;
}

class Update {
 public:
  // `memory`: so many bytes are reserved for segments.
  Update(OpsContext& ops, const UpdateRequest& request, Buffer bytes, uint64_t memory)
      : ops_(ops),
        key_(request.key),
        cas_(request.cas),
        range_{request.offset, bytes.size()},
        bytes_(std::move(bytes)),
        memory_(memory) {}

  // The flow has ended without a change, as it needs so much more than is reserved.
  uint64_t wanted_memory() const { return wanted_memory_; }

  Task<Result<UpdateOutcome>> run(TimePoint deadline) {
    return under_newest_map(ops_, deadline, [this](const MapPtr& map, TimePoint& until) {
      return attempt(map, until);
    });
  }

 private:
  // Nothing: the object was changed meanwhile.
  using MaybeOutcome = std::optional<UpdateOutcome>;

  Task<Result<MaybeOutcome>> attempt(MapPtr map, TimePoint& deadline) {
    const RecordPtr known = ops_.cache.find(key_);
    auto tail = co_await records::try_read_updated(ops_, map, key_,
                                                   known == nullptr ? 0 : known->meta.version,
                                                   /*offset=*/0, UINT64_MAX, deadline);
    if (!tail) co_return fail(tail.error());
    log_ = tail->log;
    const RecordPtr record = tail->same ? known : tail->record;
    if (record == nullptr || !is_live_now(ops_, *map, *record)) {
      co_return UpdateOutcome{.status = UpdateStatus::kNotFound};
    }
    const uint64_t size = record->content.size;
    UpdateOutcome outcome{.cas = cas_of(key_, node::cas_of(*record, tail->last_lsn())),
                          .size = size};
    if (cas_ && *cas_ != outcome.cas) {
      outcome.status = UpdateStatus::kExists;
      co_return outcome;
    }
    if (range_.length > size || range_.offset > size - range_.length) {
      outcome.status = UpdateStatus::kOutOfRange;
      co_return outcome;
    }
    if (range_.length == 0) co_return outcome;
    const uint64_t memory = memory_of(record->content, range_, log_.get());
    if (memory > memory_) {
      wanted_memory_ = memory;
      co_return outcome;
    }
    co_return co_await (record->is_striped() ? rewrite_segments(map, record, deadline)
                                             : rewrite_record(map, record, deadline));
  }

  records::Commit commit_of(const node::Record& record) const {
    records::Commit commit;
    commit.key = key_;
    commit.condition = node::Condition::kIfVersion;
    commit.condition_argument = record.meta.version;
    commit.known_version = record.meta.version;
    commit.made_of_cas = node::cas_of(record, log_ == nullptr ? 0 : log_->image.last);
    commit.content = record.content;
    return commit;
  }

  Task<Result<MaybeOutcome>> rewrite_record(MapPtr map, RecordPtr record, TimePoint deadline) {
    records::Commit commit = commit_of(*record);
    commit.content.value.clear();
    commit.inline_value = Buffer::copy_of(record->content.value);
    std::ranges::copy(bytes_.bytes(), commit.inline_value.mutable_data() + range_.offset);
    auto result = co_await records::commit(ops_, map, commit, deadline);
    if (!result) co_return fail(result.error());
    co_return committed(*record, *result);
  }

  // What a commit came to.
  MaybeOutcome committed(const node::Record& before, records::CommitResult& result) {
    after_commit(ops_, key_, result);
    if (result.status != records::CommitStatus::kCommitted) {
      ++ops_.counters.commit_conflicts;
      return std::nullopt;
    }
    UpdateOutcome outcome;
    if (result.is_exact) outcome.cas = cas_of(key_, result.record->meta.value_version);
    outcome.size = before.content.size;
    return outcome;
  }

  Task<Result<MaybeOutcome>> rewrite_segments(MapPtr map, RecordPtr record, TimePoint& deadline) {
    auto homes = records::check_homes(ops_, *map, key_);
    if (!homes) co_return fail(homes.error());
    auto staged = std::make_shared<StagedObject>();
    staged->key = key_;
    staged->scheme = record->content.scheme;
    staged->degraded_writes = ops_.pools.pool_of(key_).degraded_writes;
    auto result = co_await stage_and_commit(map, record, staged, deadline);
    staged->let_go();
    const bool is_committed = result && result->status == records::CommitStatus::kCommitted;
    const bool is_unknown = !result && result.error().code == ErrorCode::kUnknownOutcome &&
                            !mutant(Mutant::kAbandonUnknown);
    // Nothing will ever refer to these shards.
    if (!is_committed && !is_unknown) (void)ops_.background.try_spawn(abandon(ops_, staged));
    if (!result && result.error().code == ErrorCode::kNotFound) {
      co_return co_await again_unless_same(map, *record, result.error(), deadline);
    }
    if (!result) co_return fail(result.error());
    // Most of them are in the new table, too (rule 31).
    if (!mutant(Mutant::kUpdateDropsAll)) result->superseded.clear();
    if (is_committed) delete_replaced(*record, *staged);
    co_return committed(*record, *result);
  }

  // Shards of an object that was overwritten since are gone, too.
  Task<Result<MaybeOutcome>> again_unless_same(MapPtr map, const node::Record& record,
                                               const Error& missing, TimePoint deadline) {
    const auto tail = co_await records::try_read_tail(ops_, map, key_, /*if_version=*/0, deadline);
    if (!tail) co_return fail(tail.error());
    const bool is_same =
        tail->record != nullptr && tail->record->content.segments == record.content.segments;
    if (is_same) co_return fail(ErrorCode::kLost, "{}", missing.message);
    co_return MaybeOutcome();
  }

  Task<Result<records::CommitResult>> stage_and_commit(MapPtr map, RecordPtr record,
                                                       StagedPtr staged, TimePoint& deadline) {
    uint64_t begin = 0;  // of the segment, in the object
    for (const Segment& segment : record->content.segments) {
      const ByteRange touched = part_within(range_, begin, segment.length);
      if (touched.length > 0 || is_logged(log_.get(), segment, begin)) {
        if (!staged->segments.empty()) deadline = std::max(deadline, fresh_deadline(ops_));
        auto written = co_await write_with(map, record, staged, segment, begin, touched, deadline);
        if (!written) co_return fail(written.error());
      }
      begin += segment.length;
    }
    auto prepared = co_await prepare(ops_, map, staged, deadline);
    if (!prepared) co_return fail(prepared.error());
    const uint64_t made_of = commit_of(*record).made_of_cas;
    for (RecordPtr current = record;;) {
      records::Commit commit = commit_of(*current);
      // Known before the first shard was written: a fence since then refuses it (rule 7).
      commit.base_version = record->meta.version;
      commit.made_of_cas = made_of;
      for (const Segment& segment : segment_table(*staged)) {
        commit.content.segments[segment.number] = segment;
      }
      auto result = co_await records::commit(ops_, map, commit, deadline);
      const bool is_refused = result && result->status == records::CommitStatus::kConditionFailed;
      if (!is_refused || ops_.clock.now() >= deadline) co_return result;
      if (!may_go_on(*map, *record, *current, result->record, *staged)) co_return result;
      current = std::move(result->record);
    }
  }

  // Whether what was staged is still right under a newer record: a touch, a repair or another
  // update has come between, and the segments that this one replaces are as they were.
  bool may_go_on(const node::ClusterMap& map, const node::Record& before,
                 const node::Record& current, const RecordPtr& newest,
                 const StagedObject& staged) const {
    if (newest == nullptr || !newest->is_striped() || !is_live_now(ops_, map, *newest))
      return false;
    // Then it is the log that has changed.
    if (newest->meta.version == current.meta.version) return false;
    if (cas_ && newest->meta.value_version != before.meta.value_version) return false;
    return std::ranges::all_of(staged.segments, [&](const StagedSegment& segment) {
      const size_t number = segment.segment.number;
      return number < newest->content.segments.size() &&
             newest->content.segments[number] == before.content.segments[number];
    });
  }

  Task<Result<void>> write_with(MapPtr map, RecordPtr record, StagedPtr staged,
                                const Segment& segment, uint64_t begin, ByteRange touched,
                                TimePoint& deadline) {
    auto whole = touched.length == 0 ? Buffer()
                                     : bytes_.slice(touched.offset - range_.offset, touched.length);
    if (touched.length < segment.length) {
      auto read = co_await read_segment(ops_, map, staged->scheme, SegmentPtr(record, &segment),
                                        {0, segment.length}, nullptr, deadline);
      if (!read) co_return fail(read.error());
      auto laid = lay_over(read->bytes.mutable_bytes(), begin, segment.folded_lsn, log_.get());
      if (!laid) co_return fail(laid.error());
      if (touched.length > 0) {
        std::ranges::copy(whole.bytes(), read->bytes.mutable_data() + (touched.offset - begin));
      }
      whole = std::move(read->bytes);
    }
    StagedSegment& written =
        staged->segments.emplace_back(replacement_of(segment, ops_.ids.next()));
    written.data = std::move(whole);
    const size_t index = staged->segments.size() - 1;
    auto prepared = co_await prepare_segment(ops_, map, staged, index, deadline);
    // One at a time is in memory: what is missing later is made again from the shards.
    if (touched.length == 0 || touched.length < range_.length) staged->segments[index].let_go();
    co_return prepared;
  }

  void delete_replaced(const node::Record& record, const StagedObject& staged) {
    std::vector<Segment> replaced;
    replaced.reserve(staged.segments.size());
    for (const StagedSegment& segment : staged.segments) {
      replaced.push_back(record.content.segments[segment.segment.number]);
    }
    delete_after_grace(ops_, shards_by_node(staged.scheme, replaced));
  }

  OpsContext& ops_;
  const std::string key_;
  const std::optional<uint64_t> cas_;
  const ByteRange range_;
  const Buffer bytes_;
  const uint64_t memory_;
  LogViewPtr log_;  // of the record that is written again
  uint64_t wanted_memory_ = 0;
};

Task<Semaphore::Permit> reserve(const StagingMemory& memory, uint64_t bytes) {
  if (bytes == 0) co_return Semaphore::Permit();
  co_return co_await memory.acquire(bytes);
}

}  // namespace

Task<Result<UpdateOutcome>> update_object(OpsContext& ops, UpdateRequest request,
                                          TimePoint deadline) {
  const uint64_t size = request.value->size();
  if (size > ops.settings.update_max_bytes) {
    co_return fail(ErrorCode::kTooLarge, "object too large for cache");
  }
  const Pool& pool = ops.pools.pool_of(request.key);
  const bool comes_in_parts = storage_of(pool, size) == Storage::kStriped;
  const StagingMemory staging(ops.memory.staged, request.staging_memory);
  const RecordPtr known = ops.cache.find(request.key);
  const bool is_large = size > node::kMaxLoggedBytes;
  uint64_t memory = is_large && known != nullptr && known->is_striped()
                        ? memory_of(known->content, {request.offset, size}, nullptr)
                        : 0;
  TimePoint asked = ops.clock.now();
  if (comes_in_parts) {
    auto arrived = co_await request.value->arrived(size);
    if (!arrived) co_return fail(arrived.error());
  }
  // All at once, and before the key's lock: who holds some of it never waits for more.
  auto permit = co_await reserve(staging, memory + (comes_in_parts ? size : 0));
  const auto bytes = co_await request.value->next(size);
  if (!bytes) co_return fail(bytes.error());
  deadline += ops.clock.now() - asked;
  if (!is_large && size > 0) {
    auto outcome = co_await update_log(ops, request, *bytes, deadline);
    if (!outcome) co_return fail(outcome.error());
    if (*outcome) co_return **outcome;
  }
  for (;;) {
    {
      const auto guard = co_await ops.locks.lock(request.key);
      Update update(ops, request, *bytes, memory);
      auto outcome = co_await update.run(deadline);
      if (update.wanted_memory() == 0) co_return outcome;
      memory = update.wanted_memory();  // it was not known to be so large
    }
    permit.release();
    asked = ops.clock.now();
    permit = co_await reserve(staging, memory + (comes_in_parts ? size : 0));
    deadline += ops.clock.now() - asked;
  }
}

}  // namespace elastripe::objects
