// TOUCH: a new expiry, in the record only (rule 17); the cas stays.
#include "proxy/ops/attempt.h"
#include "proxy/ops/get.h"
#include "proxy/ops/outcome.h"
#include "proxy/ops/put.h"

namespace elastripe {

namespace {

Task<Result<CommitResult>> commit_touch(OpsContext& ops, std::string key, uint32_t exptime,
                                        TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(key);
  Commit commit;
  commit.key = key;
  commit.condition = node::Condition::kIfPresent;
  commit.mutation = node::Mutation::kTouch;
  commit.content.exptime = exptime;
  auto result = co_await commit_record(ops, std::move(commit), deadline);
  if (result) after_commit(ops, key, *result);
  co_return result;
}

}  // namespace

Task<Result<bool>> touch_object(OpsContext& ops, std::string key, uint32_t exptime,
                                TimePoint deadline) {
  auto result = co_await commit_touch(ops, std::move(key), exptime, deadline);
  if (!result) co_return fail(result.error());
  co_return result->status == CommitStatus::kCommitted;
}

// The touched record is the answer, even if its new expiry is already over, as in memcached. Only
// if it was replaced since is it read again. The touch has taken effect by then, so a value that
// can not be read is no definite failure.
Task<Result<ReadOutcome>> touch_and_get_object(OpsContext& ops, std::string key, uint32_t exptime,
                                               ReadMemory& memory, TimePoint deadline) {
  auto result = co_await commit_touch(ops, key, exptime, deadline);
  if (!result) co_return fail(result.error());
  if (result->status != CommitStatus::kCommitted) co_return ReadOutcome{};
  auto map = current_map(ops);
  if (map && result->is_exact) {
    auto read = co_await read_bytes(ops, *map, key, result->record, memory, &deadline);
    if (read) co_return found_object(std::move(*read));
  }
  auto object = co_await get_object(ops, std::move(key), memory, deadline);
  if (object) co_return object;
  co_return unknown_outcome(ops, "touched, but not read: " + object.error().message);
}

Task<Result<ReadOutcome>> touch_and_get_object(OpsContext& ops, std::string key, uint32_t exptime,
                                               TimePoint deadline) {
  SingleRead memory(ops.read_bytes, ops.clock);
  co_return co_await touch_and_get_object(ops, std::move(key), exptime, memory, deadline);
}

}  // namespace elastripe
