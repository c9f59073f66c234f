#include "proxy/ops/put.h"

#include <algorithm>

#include "proxy/ops/attempt.h"
#include "proxy/ops/modify.h"
#include "proxy/ops/outcome.h"
#include "proxy/ops/read_tail.h"
#include "proxy/ops/upload.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::Condition;
using node::RecordKind;

namespace {

uint64_t known_base(OpsContext& ops, const node::ClusterMap& map, std::string_view key) {
  const RecordPtr cached = ops.cache.find(key);
  const uint64_t version = cached == nullptr ? 0 : cached->meta.version;
  const auto floor = ops.head_floors.find(map.partition_of(key));
  return std::max(version, floor == ops.head_floors.end() ? 0 : floor->second);
}

Task<Result<CommitResult>> put_inline(OpsContext& ops, Put& request, TimePoint deadline) {
  request.commit.content.kind = RecordKind::kInline;
  request.commit.inline_value = std::move(request.value);
  for (;;) {
    auto map = current_map(ops);
    if (!map) co_return fail(map.error());
    auto result = co_await commit(ops, *map, request.commit, deadline);
    if (result) co_return result;
    auto again = co_await before_retry(ops, *map, result.error(), deadline);
    if (!again) co_return fail(again.error());
  }
}

// One transaction: prepare, commit. The base was known before its first shard write.
Task<Result<CommitResult>> try_striped(OpsContext& ops, Commit& request, StagedPtr staged,
                                       TimePoint deadline) {
  uint32_t prepared_epoch = 0;
  for (;;) {
    auto map = current_map(ops);
    if (!map) co_return fail(map.error());
    Result<CommitResult> result;
    auto prepared = co_await prepare(ops, *map, staged, deadline);
    if (prepared) {
      // Rebuilding the shards of many segments may have taken its time.
      const bool is_new =
          std::exchange(prepared_epoch, map->get()->epoch.number) != map->get()->epoch.number;
      if (is_new && staged->segments.size() > 1) {
        deadline = std::max(deadline, fresh_deadline(ops));
      }
      request.content.segments = segment_table(*staged);
      result = co_await commit(ops, *map, request, deadline);
      if (result) co_return result;
    } else {
      result = fail(prepared.error());
    }
    auto again = co_await before_retry(ops, *map, result.error(), deadline);
    if (!again) co_return fail(again.error());
  }
}

// Of a value that comes in parts the bytes are gone when a fence is met at the end, so what the
// head knows is asked for first: a fence of before is then no obstacle.
Task<uint64_t> find_base(OpsContext& ops, MapPtr map, std::string_view key, bool is_large,
                         TimePoint deadline) {
  const uint64_t known = known_base(ops, *map, key);
  if (!is_large) co_return known;
  auto head = co_await try_read_head(ops, map, key, deadline);
  if (!head) co_return known;
  const uint64_t version = head->record == nullptr ? 0 : head->record->meta.version;
  co_return std::max({known, version, head->floor});
}

// The same bytes under a new data_txid: who fenced the old one may be about to delete its shards.
Task<Result<StagedPtr>> stage_again(OpsContext& ops, const Pool& pool, StagedPtr staged,
                                    TimePoint* deadline) {
  if (mutant(Mutant::kKeepFencedShards)) co_return staged;
  StagedValue value(ops, staged);
  const bool is_here = !staged->segments.front().data.empty();
  auto again = co_await upload(ops, pool, staged->key, value,
                               is_here ? nullptr : &ops.rebuild_bytes, deadline);
  if (again && is_here) {
    (*again)->segments.front().memory = std::move(staged->segments.front().memory);
  }
  co_return again;
}

Task<Result<CommitResult>> put_striped(OpsContext& ops, const Pool& pool, Put& request,
                                       TimePoint deadline) {
  Commit& attempt = request.commit;
  attempt.content.kind = RecordKind::kStriped;
  const std::string_view key = attempt.key;
  const uint64_t known_version = attempt.known_version;
  WholeValue whole(std::move(request.value));
  ValueSource& value = request.source != nullptr ? *request.source : whole;
  auto map = current_map(ops);
  if (!map) co_return fail(map.error());
  // Before shards are written for nothing.
  auto homes = check_homes(ops, **map, key);
  if (!homes) co_return fail(homes.error());
  const bool is_large = value.size() > pool.segment_bytes;
  uint64_t base = co_await find_base(ops, *map, key, is_large, deadline);
  auto staged = co_await upload(ops, pool, std::string(key), value, request.memory, &deadline);
  if (!staged) co_return fail(staged.error());
  if (mutant(Mutant::kLateBase)) base = co_await find_base(ops, *map, key, true, deadline);
  KeyLocks::Guard guard;
  if (request.locks_late) guard = co_await ops.locks.lock(key);
  for (;;) {
    attempt.base_version = base;
    attempt.known_version = std::max(known_version, base);
    auto result = co_await try_striped(ops, attempt, *staged, deadline);
    if (result && result->status == CommitStatus::kCommitted) co_return result;
    // Anything but an unknown outcome says that nothing will ever refer to these shards.
    const bool is_over = result || result.error().code != ErrorCode::kUnknownOutcome ||
                         mutant(Mutant::kAbandonUnknown);
    const StagedPtr old = *staged;
    const bool is_fenced = result && result->status == CommitStatus::kFenced;
    if (is_fenced) {
      ++ops.counters.commit_conflicts;
      base = std::max(result->floor, result->record == nullptr ? 0 : result->record->meta.version);
      ops.head_floors[(*map)->partition_of(key)] = result->floor;
      staged = co_await stage_again(ops, pool, old, &deadline);
      if (!staged) result = fail(staged.error());
    }
    if (is_over && (!staged || !is_fenced || *staged != old)) {
      for (StagedSegment& segment : old->segments) segment.let_go();
      (void)ops.background.try_spawn(abandon(ops, old));
    }
    if (!is_fenced || !staged) co_return result;
  }
}

}  // namespace

void after_commit(OpsContext& ops, std::string_view key, const CommitResult& result) {
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
  if (result.status == CommitStatus::kCommitted) {
    auto shards = shards_by_node(result.superseded_scheme, result.superseded);
    delete_after_grace(ops, std::move(shards));
  }
}

Task<Result<CommitResult>> put(OpsContext& ops, const Pool& pool, Put& request,
                               TimePoint deadline) {
  const uint64_t size = request.source != nullptr ? request.source->size() : request.value.size();
  auto& commit = request.commit;
  commit.mutation = node::Mutation::kSet;
  commit.blind = commit.condition == Condition::kAlways;
  commit.content.flags = request.flags;
  commit.content.exptime = request.exptime;
  commit.content.size = size;
  commit.content.scheme = pool.scheme;
  const bool is_inline = size == 0 || size <= pool.inline_max_bytes;
  if (is_inline && request.source != nullptr) {
    auto value = co_await request.source->next(size);
    if (!value) co_return fail(value.error());
    request.value = std::move(*value);
  }
  auto result = is_inline ? co_await put_inline(ops, request, deadline)
                          : co_await put_striped(ops, pool, request, deadline);
  if (result) after_commit(ops, commit.key, *result);
  co_return result;
}

namespace {

StoreOutcome outcome_of(StoreVerb verb, const CommitResult& result) {
  switch (result.status) {
    case CommitStatus::kCommitted:
      return StoreOutcome::kStored;
    case CommitStatus::kNotFound:
      return verb == StoreVerb::kCas ? StoreOutcome::kNotFound : StoreOutcome::kNotStored;
    default:
      return verb == StoreVerb::kCas ? StoreOutcome::kExists : StoreOutcome::kNotStored;
  }
}

}  // namespace

Task<Result<StoreOutcome>> store_object(OpsContext& ops, StoreRequest request, TimePoint deadline) {
  if (request.size() > ops.settings.max_object_bytes) {
    co_return fail(ErrorCode::kTooLarge, "object too large for cache");
  }
  if (request.verb == StoreVerb::kAppend || request.verb == StoreVerb::kPrepend) {
    co_return co_await extend_object(ops, std::move(request), deadline);
  }
  Put put_request;
  put_request.flags = request.flags;
  put_request.exptime = request.exptime;
  put_request.value = std::move(request.value);
  put_request.source = request.source;
  put_request.memory = &ops.staged_bytes;
  const Pool& pool = ops.pools.pool_of(request.key);
  put_request.locks_late = request.size() > pool.inline_max_bytes;
  Commit& commit = put_request.commit;
  commit.key = request.key;
  switch (request.verb) {
    case StoreVerb::kAdd:
      commit.condition = Condition::kIfAbsent;
      break;
    case StoreVerb::kReplace:
      commit.condition = Condition::kIfPresent;
      break;
    case StoreVerb::kCas:
      commit.condition = Condition::kIfValueVersion;
      commit.condition_argument = value_version_of_cas(request.key, request.cas);
      break;
    default:
      commit.condition = Condition::kAlways;
      break;
  }
  KeyLocks::Guard guard;
  if (!put_request.locks_late) guard = co_await ops.locks.lock(commit.key);
  auto result = co_await put(ops, pool, put_request, deadline);
  if (!result) co_return fail(result.error());
  co_return outcome_of(request.verb, *result);
}

}  // namespace elastripe
