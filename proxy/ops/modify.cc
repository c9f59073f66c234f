#include "proxy/ops/modify.h"

#include <algorithm>
#include <charconv>

#include "proxy/ops/attempt.h"
#include "proxy/ops/get.h"
#include "proxy/ops/put.h"
#include "server-patches/node/format/counter.h"

namespace elastripe {

using node::Condition;
using node::Mutation;
using node::RecordKind;

namespace {

// Writes `value` in the place of the record that it was made from; kConditionFailed if that is no
// longer the newest.
Task<Result<CommitResult>> replace_version(OpsContext& ops, const Pool& pool, std::string key,
                                           RecordPtr record, Buffer value, TimePoint deadline) {
  Put request;
  request.commit.key = std::move(key);
  request.commit.condition = Condition::kIfVersion;
  request.commit.condition_argument = record->meta.version;
  request.commit.known_version = record->meta.version;
  request.flags = record->content.flags;
  request.exptime = record->content.exptime;
  request.value = std::move(value);
  return put(ops, pool, std::move(request), deadline);
}

Buffer joined(const StoreRequest& request, const std::vector<Buffer>& value, uint64_t size) {
  Buffer all = Buffer::allocate(size + request.value.size());
  std::byte* out = all.mutable_data();
  const auto put_bytes = [&out](ByteView bytes) { out = std::ranges::copy(bytes, out).out; };
  if (request.verb == StoreVerb::kPrepend) put_bytes(request.value);
  for (const Buffer& segment : value) put_bytes(segment);
  if (request.verb == StoreVerb::kAppend) put_bytes(request.value);
  return all;
}

Task<Result<StoreOutcome>> extend_striped(OpsContext& ops, const Pool& pool, StoreRequest request,
                                          TimePoint deadline) {
  const uint64_t max_bytes = ops.settings.max_object_bytes;
  StagedRead memory(ops.staged_bytes, ops.clock, max_bytes - request.value.size());
  for (;;) {
    auto read = co_await read_versioned(ops, request.key, memory, deadline);
    if (!read) co_return fail(read.error());
    if (!read->is_live) co_return StoreOutcome::kNotStored;
    Buffer all = joined(request, read->value, read->record->content.size);
    read->value.clear();  // the PUT waits for memory: not while it holds some
    auto result =
        co_await replace_version(ops, pool, request.key, read->record, std::move(all), deadline);
    if (!result) co_return fail(result.error());
    if (result->status == CommitStatus::kCommitted) co_return StoreOutcome::kStored;
    ++ops.counters.commit_conflicts;
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "too many writers of one key");
    }
  }
}

}  // namespace

Task<Result<StoreOutcome>> extend_object(OpsContext& ops, StoreRequest request,
                                         TimePoint deadline) {
  const Pool& pool = ops.pools.pool_of(request.key);
  if (request.value.size() <= pool.inline_max_bytes) {
    Commit commit;
    commit.key = request.key;
    commit.condition = Condition::kIfPresent;
    commit.mutation = request.verb == StoreVerb::kAppend ? Mutation::kAppend : Mutation::kPrepend;
    commit.inline_max_bytes = pool.inline_max_bytes;
    commit.content.kind = RecordKind::kInline;
    commit.content.value = request.value.text();
    commit.content.size = request.value.size();
    commit.content.scheme = pool.scheme;
    auto result = co_await commit_record(ops, std::move(commit), deadline);
    if (!result) co_return fail(result.error());
    switch (result->status) {
      case CommitStatus::kCommitted:
        after_commit(ops, request.key, *result);
        co_return StoreOutcome::kStored;
      case CommitStatus::kNotInline:
      case CommitStatus::kTooLarge:
        break;
      default:
        co_return StoreOutcome::kNotStored;
    }
  }
  co_return co_await extend_striped(ops, pool, std::move(request), deadline);
}

namespace {

Result<CounterOutcome> counter_value(OpsContext& ops, const CommitResult& result) {
  if (!result.is_exact) {
    return unknown_outcome(ops, "the counter was changed, and changed again since");
  }
  const auto& text = result.record->content.value;
  CounterOutcome outcome;
  std::from_chars(text.data(), text.data() + text.size(), outcome.value);
  return outcome;
}

// A counter in a pool that stripes even the smallest objects.
Task<Result<CounterOutcome>> change_striped_counter(OpsContext& ops, const Pool& pool,
                                                    CounterRequest request, TimePoint deadline) {
  StagedRead memory(ops.staged_bytes, ops.clock, node::kMaxCounterBytes);
  for (;;) {
    auto read = co_await read_versioned(ops, request.key, memory, deadline);
    if (!read && read.error().code == ErrorCode::kTooLarge) {
      co_return CounterOutcome{CounterStatus::kNotNumber, 0};
    }
    if (!read) co_return fail(read.error());
    if (!read->is_live) co_return CounterOutcome{CounterStatus::kNotFound, 0};
    std::string text;
    for (const Buffer& segment : read->value) text += segment.text();
    read->value.clear();  // the PUT waits for memory: not while it holds some
    const auto sum = node::add_delta(text, request.increment, request.delta);
    if (!sum) co_return CounterOutcome{CounterStatus::kNotNumber, 0};
    auto result = co_await replace_version(ops, pool, request.key, read->record,
                                           Buffer::copy_of(sum->text), deadline);
    if (!result) co_return fail(result.error());
    if (result->status == CommitStatus::kCommitted) {
      co_return CounterOutcome{CounterStatus::kOk, sum->number};
    }
    ++ops.counters.commit_conflicts;
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "too many writers of one key");
    }
  }
}

}  // namespace

Task<Result<CounterOutcome>> change_counter(OpsContext& ops, CounterRequest request,
                                            TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(request.key);
  const Pool& pool = ops.pools.pool_of(request.key);
  Commit commit;
  commit.key = request.key;
  commit.condition = Condition::kIfPresent;
  commit.mutation = request.increment ? Mutation::kIncrement : Mutation::kDecrement;
  commit.delta = request.delta;
  auto result = co_await commit_record(ops, std::move(commit), deadline);
  if (!result) co_return fail(result.error());
  switch (result->status) {
    case CommitStatus::kCommitted:
      after_commit(ops, request.key, *result);
      co_return counter_value(ops, *result);
    case CommitStatus::kNotNumber:
      co_return CounterOutcome{CounterStatus::kNotNumber, 0};
    case CommitStatus::kNotInline:
      co_return co_await change_striped_counter(ops, pool, std::move(request), deadline);
    default:
      co_return CounterOutcome{CounterStatus::kNotFound, 0};
  }
}

}  // namespace elastripe
