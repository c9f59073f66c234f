#include "proxy/ops/jobs/reclaim_steps.h"

namespace elastripe::jobs {

TimePoint soon(const OpsContext& ops) { return ops.clock.now() + ops.settings.node_timeout; }

bool ends_round(const Error& error) {
  return error.code == ErrorCode::kStaleEpoch || error.code == ErrorCode::kCancelled;
}

Result<void> end_or_go_on(const Error& error) {
  return ends_round(error) ? Result<void>(fail(error)) : Result<void>{};
}

Task<Result<records::CommitResult>> commit_at_version(OpsContext& ops, MapPtr map, std::string key,
                                                      node::Mutation mutation, uint64_t version,
                                                      node::RecordContent content) {
  records::Commit change;
  change.key = key;
  change.condition = node::Condition::kIfVersion;
  change.condition_argument = version;
  change.mutation = mutation;
  change.known_version = version;
  change.content = std::move(content);
  co_return co_await records::commit(ops, map, change, soon(ops));
}

bool has_completed_other(const records::CommitResult& result) {
  return result.status == records::CommitStatus::kConditionFailed && result.record != nullptr;
}

}  // namespace elastripe::jobs
