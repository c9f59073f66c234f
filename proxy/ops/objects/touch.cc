// TOUCH: a new expiry, in the record only (rule 17); the cas stays.
#include "proxy/ops/objects/touch.h"

#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/object_read.h"
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/objects/put.h"

namespace elastripe::objects {

Task<Result<records::CommitResult>> commit_touch(OpsContext& ops, std::string_view key,
                                                 uint32_t exptime, TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(key);
  records::Commit commit;
  commit.key = key;
  commit.condition = node::Condition::kIfPresent;
  commit.mutation = node::Mutation::kTouch;
  commit.content.exptime = exptime;
  auto result = co_await records::commit_record(ops, commit, deadline);
  if (result) after_commit(ops, key, *result);
  co_return result;
}

Task<Result<bool>> touch_object(OpsContext& ops, std::string_view key, uint32_t exptime,
                                TimePoint deadline) {
  auto result = co_await commit_touch(ops, key, exptime, deadline);
  if (!result) co_return fail(result.error());
  co_return result->status == records::CommitStatus::kCommitted;
}

// The touched record is the answer, even if its new expiry is already over, as in memcached. Only
// if it was replaced since is it read again. The touch has taken effect by then, so a value that
// can not be read is no definite failure.
Task<Result<ReadOutcome>> touch_and_get_object(OpsContext& ops, std::string_view key,
                                               uint32_t exptime, ValueSink& sink, ByteRange range,
                                               TimePoint deadline) {
  auto result = co_await commit_touch(ops, key, exptime, deadline);
  if (!result) co_return fail(result.error());
  if (result->status != records::CommitStatus::kCommitted) co_return ReadOutcome{};
  ObjectRead read(ops, key, sink, range, deadline, records::Use::kCounts);
  auto opened = result->is_exact ? co_await read.open(result->record) : co_await read.open();
  auto outcome = opened ? co_await deliver(read, sink) : fail(opened.error());
  if (outcome) co_return outcome;
  co_return unknown_outcome(ops, "touched, but not read: " + outcome.error().message);
}

}  // namespace elastripe::objects
