// UPDATE: new bytes in a part of a value. Those of striped objects go to an update log, where the
// pool has them, they fit, and there is room (logged_update.h). What else there is is written
// again: an inline record, or of a striped object the segments that the bytes lie in, or that have
// others in the log (rewrite.h).
#include <algorithm>

#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/baselines/in_place_update.h"
#include "proxy/ops/objects/logged_update.h"
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/objects/put.h"
#include "proxy/ops/objects/rewrite.h"
#include "proxy/ops/records/read_tail.h"

namespace elastripe::objects {

namespace {

// The segments that have some of the range.
std::vector<SegmentChange> changes_of(const node::RecordContent& content, ByteRange range) {
  std::vector<SegmentChange> changes;
  const uint64_t range_end = range.offset + range.length;
  uint64_t begin = 0;  // of the segment, in the object
  for (size_t i = 0; i < content.segments.size() && begin < range_end; ++i) {
    const uint32_t length = content.segments[i].length;
    const uint64_t first = std::max(range.offset, begin);
    const uint64_t end = std::min(range_end, begin + length);
    if (first < end) {
      changes.push_back({.first = i,
                         .length = length,
                         .given = {first - range.offset, end - first},
                         .given_at = static_cast<uint32_t>(first - begin)});
    }
    begin += length;
  }
  return changes;
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
    if (!record->is_striped()) co_return co_await rewrite_record(map, record, deadline);
    Rewrite rewrite{.key = key_,
                    .record = record,
                    .log = tail->log,
                    .given = bytes_,
                    .changes = changes_of(record->content, range_),
                    .keeps_marks = true};
    add_logged(rewrite);
    const uint64_t memory = memory_of(record->content, rewrite.changes);
    if (memory > memory_) {
      wanted_memory_ = memory;
      co_return outcome;
    }
    auto result = co_await rewrite_segments(ops_, map, std::move(rewrite), deadline);
    if (!result) co_return fail(result.error());
    if (!*result) co_return std::nullopt;
    co_return committed(*record, **result);
  }

  Task<Result<MaybeOutcome>> rewrite_record(MapPtr map, RecordPtr record, TimePoint deadline) {
    records::Commit commit;
    commit.key = key_;
    commit.condition = node::Condition::kIfVersion;
    commit.condition_argument = record->meta.version;
    commit.known_version = record->meta.version;
    commit.made_of_cas = cas_with(*record, /*log=*/nullptr);
    commit.content = record->content;
    commit.content.value.clear();
    commit.content.cas = commit.content.cas_since = 0;
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
    outcome.cas = cas_after(key_, result);
    outcome.size = before.content.size;
    return outcome;
  }

  OpsContext& ops_;
  const std::string key_;
  const std::optional<uint64_t> cas_;
  const ByteRange range_;
  const Buffer bytes_;
  const uint64_t memory_;
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
  uint64_t memory =
      is_large && known != nullptr && known->is_striped()
          ? memory_of(known->content, changes_of(known->content, {request.offset, size}))
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
  std::optional<KeyLocks::Guard> turn;
  if (is_in_place(pool.updates) && size > 0) {
    auto outcome = co_await update_in_place(ops, request, *bytes, deadline);
    if (!outcome) co_return fail(outcome.error());
    if (*outcome) co_return **outcome;
  } else if (!is_large && size > 0) {
    auto end = co_await update_log(ops, request, *bytes, deadline);
    if (!end) co_return fail(end.error());
    if (end->outcome) co_return *end->outcome;
    turn = std::move(end->turn);
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
    const uint64_t wanted = memory + (comes_in_parts ? size : 0);
    if (auto at_once = staging.try_acquire(wanted)) {
      permit = std::move(*at_once);
      continue;
    }
    // Those that wait for the turn have memory, which this one may wait for.
    const bool had_turn = std::exchange(turn, std::nullopt).has_value();
    asked = ops.clock.now();
    permit = co_await staging.acquire(wanted);
    if (had_turn) turn = co_await ops.log_room.turns.lock(request.key);
    deadline += ops.clock.now() - asked;
  }
}

}  // namespace elastripe::objects
