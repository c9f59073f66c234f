#include "proxy/ops/objects/put.h"

#include <algorithm>

#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/objects/upload.h"
#include "proxy/ops/records/read_tail.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::objects {

using node::Condition;
using node::RecordKind;

namespace {

// What is known of the object that a PUT replaces.
struct Replaced {
  uint64_t version = 0;  // at least
  RecordPtr record;      // null: none, or unknown
};

Replaced known_before(OpsContext& ops, const node::ClusterMap& map, std::string_view key) {
  Replaced known{.record = ops.cache.find(key)};
  const auto floor = ops.head_floors.find(map.partition_of(key));
  if (floor != ops.head_floors.end()) known.version = floor->second;
  if (known.record != nullptr) known.version = std::max(known.version, known.record->meta.version);
  return known;
}

// The state that a new value is written in. A record that is not the newest any more is as good as
// any: an object may be in either state.
coding::State state_to_write(const Pool& pool, const RecordPtr& replaced) {
  switch (pool.write_state) {
    case WriteState::kNarrow:
      break;
    case WriteState::kWide:
      return coding::State::kWide;
    case WriteState::kAsBefore: {
      const auto is_wide = [](const node::Segment& segment) {
        return segment.state == coding::State::kWide;
      };
      if (replaced != nullptr && replaced->is_striped() &&
          std::ranges::all_of(replaced->content.segments, is_wide)) {
        return coding::State::kWide;
      }
    }
  }
  return coding::State::kNarrow;
}

Task<Result<records::CommitResult>> put_inline(OpsContext& ops, Put& request, TimePoint deadline) {
  auto value = co_await request.value->next(request.value->size());
  if (!value) co_return fail(value.error());
  request.commit.content.kind = RecordKind::kInline;
  request.commit.inline_value = std::move(*value);
  co_return co_await records::commit_record(ops, request.commit, deadline);
}

// One transaction: prepare, commit. The base was known before its first shard write.
struct Transaction {
  OpsContext& ops;
  records::Commit& request;
  StagedPtr staged;
  uint32_t prepared_epoch = 0;

  Task<Result<records::CommitResult>> attempt(const MapPtr& map, TimePoint& deadline) {
    auto prepared = co_await prepare(ops, map, staged, deadline);
    if (!prepared) co_return fail(prepared.error());
    // Rebuilding the shards of many segments may have taken its time.
    const bool is_new = std::exchange(prepared_epoch, map->epoch.number) != map->epoch.number;
    if (is_new && staged->segments.size() > 1) deadline = std::max(deadline, fresh_deadline(ops));
    request.content.segments = segment_table(*staged);
    co_return co_await records::commit(ops, map, request, deadline);
  }
};

Task<Result<records::CommitResult>> try_striped(OpsContext& ops, records::Commit& request,
                                                StagedPtr staged, TimePoint deadline) {
  Transaction transaction{ops, request, std::move(staged)};
  co_return co_await under_newest_map(ops, deadline, [&](const MapPtr& map, TimePoint& until) {
    return transaction.attempt(map, until);
  });
}

// A streamed value cannot be sent again when a fence is met at the end. So what the
// head knows is asked for first: a fence of before is then no obstacle.
Task<Replaced> find_replaced(OpsContext& ops, MapPtr map, std::string_view key, bool is_large,
                             TimePoint deadline) {
  Replaced replaced = known_before(ops, *map, key);
  if (!is_large) co_return replaced;
  auto head = co_await records::try_read_head(ops, map, key, deadline);
  if (!head) co_return replaced;
  replaced.record = std::move(head->record);
  const uint64_t version = replaced.record == nullptr ? 0 : replaced.record->meta.version;
  replaced.version = std::max({replaced.version, version, head->floor});
  co_return replaced;
}

// The same bytes under a new data_txid: who fenced the old one may be about to delete its shards.
Task<Result<StagedPtr>> stage_again(OpsContext& ops, const Pool& pool, StagedPtr staged,
                                    TimePoint* deadline) {
  if (mutant(Mutant::kKeepFencedShards)) co_return staged;
  StagedValue value(ops, staged);
  const bool is_here = !staged->segments.front().data.empty();
  auto again =
      co_await upload(ops, pool, staged->segments.front().segment.state, staged->key, value,
                      is_here ? StagingMemory() : StagingMemory(ops.memory.rebuilt), deadline);
  if (again && is_here) {
    (*again)->segments.front().memory = std::move(staged->segments.front().memory);
  }
  co_return again;
}

Task<Result<records::CommitResult>> put_striped(OpsContext& ops, const Pool& pool, Put& request,
                                                TimePoint deadline) {
  records::Commit& attempt = request.commit;
  attempt.content.kind = RecordKind::kStriped;
  const std::string_view key = attempt.key;
  const uint64_t known_version = attempt.known_version;
  ValueSource& value = *request.value;
  auto map = current_map(ops);
  if (!map) co_return fail(map.error());
  // Before shards are written for nothing.
  auto homes = records::check_homes(ops, **map, key);
  if (!homes) co_return fail(homes.error());
  const bool is_large = value.size() > pool.segment_bytes;
  const Replaced replaced = co_await find_replaced(ops, *map, key, is_large, deadline);
  uint64_t base = replaced.version;
  auto staged = co_await upload(ops, pool, state_to_write(pool, replaced.record), std::string(key),
                                value, request.memory, &deadline);
  if (!staged) co_return fail(staged.error());
  if (mutant(Mutant::kLateBase)) {
    base = (co_await find_replaced(ops, *map, key, true, deadline)).version;
  }
  KeyLocks::Guard guard;
  if (request.locks_late) guard = co_await ops.locks.lock(key);
  for (;;) {
    attempt.base_version = base;
    attempt.known_version = std::max(known_version, base);
    auto result = co_await try_striped(ops, attempt, *staged, deadline);
    if (result && result->status == records::CommitStatus::kCommitted) {
      (*staged)->let_go();
      co_return result;
    }
    // Anything but an unknown outcome says that nothing will ever refer to these shards.
    const bool is_over = result || result.error().code != ErrorCode::kUnknownOutcome ||
                         mutant(Mutant::kAbandonUnknown);
    const StagedPtr old = *staged;
    const bool is_fenced = result && result->status == records::CommitStatus::kFenced;
    if (is_fenced) {
      ++ops.counters.commit_conflicts;
      base = std::max(result->floor, result->record == nullptr ? 0 : result->record->meta.version);
      ops.head_floors[(*map)->partition_of(key)] = result->floor;
      staged = co_await stage_again(ops, pool, old, &deadline);
      if (!staged) result = fail(staged.error());
    }
    if (is_over && (!staged || !is_fenced || *staged != old)) {
      old->let_go();
      (void)ops.background.try_spawn(abandon(ops, old));
    }
    if (is_fenced && staged) continue;
    old->let_go();
    co_return result;
  }
}

}  // namespace

uint64_t cas_after(std::string_view key, const records::CommitResult& committed) {
  return committed.is_exact ? cas_of(key, node::cas_of(*committed.record, /*last_lsn=*/0)) : 0;
}

void after_commit(OpsContext& ops, std::string_view key, const records::CommitResult& result) {
  const MapPtr map = ops.map.current();
  if (map != nullptr && result.floor > 0) {
    auto& floor = ops.head_floors[map->partition_of(key)];
    floor = std::max(floor, result.floor);
  }
  if (result.record != nullptr && result.record->is_striped()) {
    ops.cache.put(key, result.record);
  } else if (result.record != nullptr) {
    ops.cache.erase(key);
  }
  if (result.status == records::CommitStatus::kCommitted) {
    auto shards = shards_by_node(result.superseded_scheme, result.superseded);
    delete_after_grace(ops, std::move(shards));
  }
}

Task<Result<records::CommitResult>> put(OpsContext& ops, const Pool& pool, Put& request,
                                        TimePoint deadline) {
  const uint64_t size = request.value->size();
  auto& commit = request.commit;
  commit.mutation = node::Mutation::kSet;
  commit.blind = commit.condition == Condition::kAlways;
  commit.content.flags = request.flags;
  commit.content.exptime = request.exptime;
  commit.content.size = size;
  commit.content.scheme = pool.scheme;
  auto result = storage_of(pool, size) == Storage::kInline
                    ? co_await put_inline(ops, request, deadline)
                    : co_await put_striped(ops, pool, request, deadline);
  if (result) after_commit(ops, commit.key, *result);
  co_return result;
}

}  // namespace elastripe::objects
