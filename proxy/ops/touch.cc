// TOUCH: a new expiry, in the record only (rule 17); the cas stays.
#include "proxy/ops/outcome.h"
#include "proxy/ops/put.h"

namespace elastripe {

Task<Result<bool>> touch_object(OpsContext& ops, std::string key, uint32_t exptime,
                                TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(key);
  Commit commit;
  commit.key = key;
  commit.m = ops.pools.pool_of(key).scheme.m;
  commit.condition = node::Condition::kIfPresent;
  commit.mutation = node::Mutation::kTouch;
  commit.content.exptime = exptime;
  auto result = co_await commit_record(ops, std::move(commit), deadline);
  if (!result) co_return fail(result.error());
  after_commit(ops, key, *result);
  co_return result->status == CommitStatus::kCommitted;
}

}  // namespace elastripe
