// SET, ADD, REPLACE, CAS, APPEND and PREPEND of clients.
#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/mark.h"
#include "proxy/ops/objects/modify.h"
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/objects/put.h"

namespace elastripe::objects {

using node::Condition;

namespace {

StoreOutcome outcome_of(const StoreRequest& request, uint64_t size,
                        const records::CommitResult& result) {
  const StoreVerb verb = request.verb;
  switch (result.status) {
    case records::CommitStatus::kCommitted:
      return {StoreStatus::kStored, cas_after(request.key, result), size};
    case records::CommitStatus::kNotFound:
      return verb == StoreVerb::kCas ? StoreStatus::kNotFound : StoreStatus::kNotStored;
    default:
      return verb == StoreVerb::kCas ? StoreStatus::kExists : StoreStatus::kNotStored;
  }
}

// A value that was made of an older one than there is: whoever reads it is told so. Nothing: the
// object has the cas, or an earlier one, or is not there.
Task<Result<void>> aim_at_later(OpsContext& ops, const StoreRequest& request, Put& put_request,
                                TimePoint deadline) {
  StagedRead memory(UINT64_MAX, ops.clock, UINT64_MAX);
  ObjectRead read(ops, request.key, memory, {0, 0}, deadline);
  auto opened = co_await read.open();
  if (!opened) co_return fail(opened.error());
  if (!read.is_live() || cas_of(request.key, read.cas()) <= request.cas.value_or(0)) {
    co_return Result<void>{};
  }
  const node::Record& record = *read.record();
  records::Commit& commit = put_request.commit;
  commit.condition = Condition::kIfVersion;
  commit.condition_argument = record.meta.version;
  commit.known_version = record.meta.version;
  commit.made_of_cas = read.cas();
  commit.content.marks =
      static_cast<uint8_t>(node::kStale | (record.content.marks & node::kWinTaken));
  put_request.exptime = record.content.exptime;
  co_return Result<void>{};
}

}  // namespace

Task<Result<StoreOutcome>> store_object(OpsContext& ops, StoreRequest request, TimePoint deadline) {
  const uint64_t size = request.value->size();
  if (size > ops.settings.max_object_bytes) {
    co_return fail(ErrorCode::kTooLarge, "object too large for cache");
  }
  if (request.new_cas || request.stale_if_older) {
    if (auto checked = check_marks(ops); !checked) co_return fail(checked.error());
  }
  if (request.verb == StoreVerb::kAppend || request.verb == StoreVerb::kPrepend) {
    co_return co_await extend_object(ops, request, deadline);
  }
  Put put_request;
  put_request.flags = request.flags;
  put_request.exptime = request.exptime;
  put_request.value = request.value;
  put_request.memory = StagingMemory(ops.memory.staged, request.staging_memory);
  const Pool& pool = ops.pools.pool_of(request.key);
  put_request.locks_late = storage_of(pool, size) == Storage::kStriped;
  records::Commit& commit = put_request.commit;
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
      commit.condition_argument = version_of_cas(request.key, request.cas.value_or(0));
      break;
    default:
      commit.condition = Condition::kAlways;
      break;
  }
  commit.content.cas = given_cas(request.key, request.new_cas);
  if (request.stale_if_older && request.verb == StoreVerb::kCas) {
    auto aimed = co_await aim_at_later(ops, request, put_request, deadline);
    if (!aimed) co_return fail(aimed.error());
  }
  KeyLocks::Guard guard;
  if (!put_request.locks_late) guard = co_await ops.locks.lock(commit.key);
  auto result = co_await put(ops, pool, put_request, deadline);
  if (!result) co_return fail(result.error());
  co_return outcome_of(request, size, *result);
}

}  // namespace elastripe::objects
