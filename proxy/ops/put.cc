#include "proxy/ops/put.h"

#include <algorithm>

#include "proxy/ops/attempt.h"
#include "proxy/ops/modify.h"
#include "proxy/ops/outcome.h"
#include "proxy/ops/prepare.h"
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

Task<Result<CommitResult>> put_inline(OpsContext& ops, Put request, TimePoint deadline) {
  auto& content = request.commit.content;
  content.kind = RecordKind::kInline;
  content.value = request.value.text();
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
Task<Result<CommitResult>> try_striped(OpsContext& ops, Commit request,
                                       std::shared_ptr<StagedObject> staged, TimePoint deadline) {
  for (;;) {
    auto map = current_map(ops);
    if (!map) co_return fail(map.error());
    // Before shards are written for nothing.
    auto homes = check_homes(ops, **map, request.key);
    if (!homes) co_return fail(homes.error());
    Result<CommitResult> result;
    auto prepared = co_await prepare(ops, *map, staged, deadline);
    if (prepared) {
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

Task<Result<CommitResult>> put_striped(OpsContext& ops, const Pool& pool, Put request,
                                       TimePoint deadline) {
  request.commit.content.kind = RecordKind::kStriped;
  const auto permit = co_await ops.staged_bytes.acquire(request.value.size());
  auto map = current_map(ops);
  if (!map) co_return fail(map.error());
  uint64_t base = known_base(ops, **map, request.commit.key);
  for (;;) {
    auto staged = stage_object(ops, pool, request.commit.key, request.value);
    if (!staged) co_return fail(staged.error());
    Commit attempt = request.commit;
    attempt.base_version = base;
    attempt.known_version = std::max(attempt.known_version, base);
    auto result = co_await try_striped(ops, std::move(attempt), *staged, deadline);
    if (result && result->status == CommitStatus::kCommitted) co_return result;
    // Anything but an unknown outcome says that nothing will ever refer to these shards.
    if (result || result.error().code != ErrorCode::kUnknownOutcome) {
      (void)ops.background.try_spawn(abandon(ops, *staged));
    }
    if (!result || result->status != CommitStatus::kFenced) co_return result;
    ++ops.counters.commit_conflicts;
    base = std::max(result->floor, result->record == nullptr ? 0 : result->record->meta.version);
    ops.head_floors[(*map)->partition_of(request.commit.key)] = result->floor;
  }
}

}  // namespace

void after_commit(OpsContext& ops, std::string_view key, const CommitResult& result) {
  const MapPtr map = ops.map.current();
  if (map != nullptr && result.floor > 0) {
    auto& floor = ops.head_floors[map->partition_of(key)];
    floor = std::max(floor, result.floor);
  }
  if (result.record != nullptr) {
    ops.cache.put(key, result.record);
    if (result.record->content.kind != RecordKind::kStriped) ops.cache.erase(key);
  }
  if (result.status == CommitStatus::kCommitted) {
    auto shards = shards_by_node(result.superseded_scheme, result.superseded);
    delete_after_grace(ops, std::move(shards));
  }
}

Task<Result<CommitResult>> put(OpsContext& ops, const Pool& pool, Put request, TimePoint deadline) {
  auto& commit = request.commit;
  commit.mutation = node::Mutation::kSet;
  commit.blind = commit.condition == Condition::kAlways;
  commit.content.flags = request.flags;
  commit.content.exptime = request.exptime;
  commit.content.size = request.value.size();
  commit.content.scheme = pool.scheme;
  const std::string key = commit.key;
  const bool is_inline = request.value.size() <= pool.inline_max_bytes || request.value.empty();
  auto result = is_inline ? co_await put_inline(ops, std::move(request), deadline)
                          : co_await put_striped(ops, pool, std::move(request), deadline);
  if (result) after_commit(ops, key, *result);
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
  if (request.value.size() > ops.settings.max_object_bytes) {
    co_return fail(ErrorCode::kTooLarge, "object too large for cache");
  }
  const auto guard = co_await ops.locks.lock(request.key);
  if (request.verb == StoreVerb::kAppend || request.verb == StoreVerb::kPrepend) {
    co_return co_await extend_object(ops, std::move(request), deadline);
  }
  Put put_request;
  put_request.flags = request.flags;
  put_request.exptime = request.exptime;
  put_request.value = std::move(request.value);
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
      commit.condition_argument = value_version_of_cas(request.cas);
      break;
    default:
      commit.condition = Condition::kAlways;
      break;
  }
  auto result = co_await put(ops, ops.pools.pool_of(request.key), std::move(put_request), deadline);
  if (!result) co_return fail(result.error());
  co_return outcome_of(request.verb, *result);
}

}  // namespace elastripe
