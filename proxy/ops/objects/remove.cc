// DELETE: a tombstone is committed; the shards follow after a grace.
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/objects/put.h"

namespace elastripe::objects {

Task<Result<RemoveStatus>> remove_object_if(OpsContext& ops, std::string_view key,
                                            std::optional<uint64_t> cas, TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(key);
  records::Commit commit;
  commit.key = key;
  commit.condition = node::Condition::kIfPresent;
  if (cas) {
    commit.condition = node::Condition::kIfValueVersion;
    commit.condition_argument = version_of_cas(key, *cas);
  }
  commit.mutation = node::Mutation::kDelete;
  auto result = co_await records::commit_record(ops, commit, deadline);
  if (!result) co_return fail(result.error());
  after_commit(ops, key, *result);
  if (result->status == records::CommitStatus::kCommitted) co_return RemoveStatus::kRemoved;
  const bool has_other_cas = cas && result->status == records::CommitStatus::kConditionFailed;
  co_return has_other_cas ? RemoveStatus::kExists : RemoveStatus::kNotFound;
}

Task<Result<bool>> remove_object(OpsContext& ops, std::string_view key, TimePoint deadline) {
  auto removed = co_await remove_object_if(ops, key, /*cas=*/std::nullopt, deadline);
  if (!removed) co_return fail(removed.error());
  co_return *removed == RemoveStatus::kRemoved;
}

}  // namespace elastripe::objects
