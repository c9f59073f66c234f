#include "proxy/ops/reclaim_steps.h"

#include "proxy/ops/sync.h"

namespace elastripe {

TimePoint soon(const OpsContext& ops) { return ops.clock.now() + ops.settings.node_timeout; }

bool ends_round(const Error& error) {
  return error.code == ErrorCode::kStaleEpoch || error.code == ErrorCode::kCancelled;
}

Result<void> end_or_go_on(const Error& error) {
  return ends_round(error) ? Result<void>(fail(error)) : Result<void>{};
}

Task<Result<RecordReply>> read_at_tail(OpsContext& ops, MapPtr map, std::string key) {
  const Chain chain = chain_of(*map, key);
  if (chain.nodes.empty()) co_return fail(ErrorCode::kUnavailable, "no home is up");
  for (bool mended = false;; mended = true) {
    auto reply = co_await read_record(ops.nodes, map, chain.tail(), node::Role::kTail, key,
                                      /*if_version=*/0, soon(ops));
    if (!reply || reply->status != node::Status::kNotSynced) co_return reply;
    if (mended) co_return fail(ErrorCode::kUnavailable, "the key is not synced");
    // Of a synced partition: the copy was damaged.
    auto synced = co_await sync_key(ops, map, key, soon(ops));
    if (!synced) co_return fail(synced.error());
  }
}

Task<Result<CommitResult>> commit_at_version(OpsContext& ops, MapPtr map, std::string key,
                                             node::Mutation mutation, uint64_t version,
                                             node::RecordContent content) {
  Commit change;
  change.key = key;
  change.condition = node::Condition::kIfVersion;
  change.condition_argument = version;
  change.mutation = mutation;
  change.known_version = version;
  change.content = std::move(content);
  co_return co_await commit(ops, map, change, soon(ops));
}

bool has_completed_other(const CommitResult& result) {
  return result.status == CommitStatus::kConditionFailed && result.record != nullptr;
}

}  // namespace elastripe
