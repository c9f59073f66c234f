// DELETE: a tombstone is committed; the shards follow after a grace.
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/objects/put.h"

namespace elastripe::objects {

Task<Result<bool>> remove_object(OpsContext& ops, std::string_view key, TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(key);
  records::Commit commit;
  commit.key = key;
  commit.condition = node::Condition::kIfPresent;
  commit.mutation = node::Mutation::kDelete;
  auto result = co_await records::commit_record(ops, commit, deadline);
  if (!result) co_return fail(result.error());
  after_commit(ops, key, *result);
  co_return result->status == records::CommitStatus::kCommitted;
}

}  // namespace elastripe::objects
