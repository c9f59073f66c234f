// DELETE: a tombstone is committed; the shards follow after a grace.
#include "proxy/ops/outcome.h"
#include "proxy/ops/put.h"

namespace elastripe {

Task<Result<bool>> remove_object(OpsContext& ops, std::string_view key, TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(key);
  Commit commit;
  commit.key = key;
  commit.condition = node::Condition::kIfPresent;
  commit.mutation = node::Mutation::kDelete;
  auto result = co_await commit_record(ops, commit, deadline);
  if (!result) co_return fail(result.error());
  after_commit(ops, key, *result);
  co_return result->status == CommitStatus::kCommitted;
}

}  // namespace elastripe
