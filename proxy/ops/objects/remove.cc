// DELETE: a tombstone is committed; the shards follow after a grace. And what md does in its place:
// the value becomes stale, or an empty one.
#include "proxy/ops/objects/mark.h"
#include "proxy/ops/objects/put.h"

namespace elastripe::objects {

namespace {

Task<Result<RemoveStatus>> remove_whole(OpsContext& ops, RemoveRequest request,
                                        TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(request.key);
  records::Commit commit;
  commit.key = request.key;
  commit.condition = node::Condition::kIfPresent;
  if (request.cas) {
    commit.condition = node::Condition::kIfValueVersion;
    commit.condition_argument = version_of_cas(request.key, *request.cas);
  }
  commit.mutation = node::Mutation::kDelete;
  auto result = co_await records::commit_record(ops, commit, deadline);
  if (!result) co_return fail(result.error());
  after_commit(ops, request.key, *result);
  if (result->status == records::CommitStatus::kCommitted) co_return RemoveStatus::kRemoved;
  const bool has_other_cas =
      request.cas && result->status == records::CommitStatus::kConditionFailed;
  co_return has_other_cas ? RemoveStatus::kExists : RemoveStatus::kNotFound;
}

Task<Result<records::CommitResult>> make_stale(OpsContext& ops, const RemoveRequest& request,
                                               const ObjectRead& read, TimePoint deadline) {
  const node::RecordContent& content = read.record()->content;
  const Mark mark{.marks = node::kStale,  // so somebody is told to make it anew
                  .exptime = request.exptime.value_or(content.exptime),
                  .cas = request.new_cas ? given_cas(request.key, request.new_cas) : node::kNewCas};
  co_return co_await commit_mark(ops, request.key, read, mark, deadline);
}

// As memcached's: without the client's flags, and without an exptime unless one is given.
Task<Result<records::CommitResult>> make_empty(OpsContext& ops, const RemoveRequest& request,
                                               const ObjectRead& read, TimePoint deadline) {
  if (auto checked = check_marks(ops); !checked) co_return fail(checked.error());
  const auto guard = co_await ops.locks.lock(request.key);
  WholeValue empty(Buffer::allocate(0));
  Put put_request;
  put_request.value = &empty;
  put_request.exptime = request.exptime.value_or(0);
  put_request.memory = StagingMemory(ops.memory.rebuilt);
  records::Commit& commit = put_request.commit;
  commit.key = request.key;
  commit.condition = node::Condition::kIfVersion;
  commit.condition_argument = read.record()->meta.version;
  commit.made_of_cas = read.cas();
  commit.known_version = read.record()->meta.version;
  commit.content.marks = request.marks_stale ? node::kStale : uint8_t{0};
  commit.content.cas = given_cas(request.key, request.new_cas);
  co_return co_await put(ops, ops.pools.pool_of(request.key), put_request, deadline);
}

Task<Result<RemoveStatus>> remove_partly(OpsContext& ops, RemoveRequest request,
                                         TimePoint deadline) {
  for (;;) {
    StagedRead memory(UINT64_MAX, ops.clock, UINT64_MAX);
    ObjectRead read(ops, request.key, memory, {0, 0}, deadline);
    auto opened = co_await read.open();
    if (!opened) co_return fail(opened.error());
    if (!read.is_live()) co_return RemoveStatus::kNotFound;
    if (request.cas && *request.cas != cas_of(request.key, read.cas())) {
      co_return RemoveStatus::kExists;
    }
    auto result = co_await (request.empties ? make_empty(ops, request, read, deadline)
                                            : make_stale(ops, request, read, deadline));
    if (!result) co_return fail(result.error());
    if (result->status == records::CommitStatus::kCommitted) co_return RemoveStatus::kRemoved;
    ++ops.counters.commit_conflicts;
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "too many writers of one key");
    }
  }
}

}  // namespace

Task<Result<RemoveStatus>> remove_object(OpsContext& ops, RemoveRequest request,
                                         TimePoint deadline) {
  return request.keeps_object() ? remove_partly(ops, request, deadline)
                                : remove_whole(ops, request, deadline);
}

Task<Result<bool>> remove_object(OpsContext& ops, std::string_view key, TimePoint deadline) {
  auto removed = co_await remove_object(ops, RemoveRequest{.key = key}, deadline);
  if (!removed) co_return fail(removed.error());
  co_return *removed == RemoveStatus::kRemoved;
}

}  // namespace elastripe::objects
