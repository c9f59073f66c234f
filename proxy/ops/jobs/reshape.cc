#include "proxy/ops/jobs/reshape.h"

#include "proxy/ops/attempt.h"
#include "proxy/ops/records/commit.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::jobs {

namespace {

records::Commit commit_of(const Reshape& reshape, const node::Record& current) {
  records::Commit commit;
  commit.key = reshape.key;
  commit.mutation = node::Mutation::kReshape;
  commit.condition = node::Condition::kIfVersion;
  commit.condition_argument = current.meta.version;
  commit.known_version = current.meta.version;
  // Known before the first shard was staged: a fence since then refuses it (rule 7).
  commit.base_version = mutant(Mutant::kReshapeIgnoresFence) ? records::Commit::kNoBase
                                                             : reshape.record->meta.version;
  commit.content = current.content;
  for (const auto& [place, segment] : reshape.segments) commit.content.segments[place] = segment;
  return commit;
}

}  // namespace

Task<Result<ReshapeEnd>> commit_reshape(OpsContext& ops, const MapPtr& map, Reshape& reshape,
                                        TimePoint deadline) {
  RecordPtr current = reshape.record;
  for (;;) {
    records::Commit commit = commit_of(reshape, *current);
    auto result = co_await records::commit(ops, map, commit, deadline);
    if (!result) co_return fail(result.error());
    switch (result->status) {
      case records::CommitStatus::kCommitted:
        ops.cache.put(reshape.key, result->record);
        reshape.committed = std::move(result->record);
        co_return ReshapeEnd::kCommitted;
      case records::CommitStatus::kFenced:
        co_return ReshapeEnd::kAgain;
      default:
        break;
    }
    current = result->record;
    if (current == nullptr || !is_live_now(ops, *map, *current)) co_return ReshapeEnd::kAgain;
    if (current->meta.value_version != reshape.record->meta.value_version) {
      co_return ReshapeEnd::kOverwritten;
    }
    if (!has_same_shards(reshape, current->content)) co_return ReshapeEnd::kAgain;
    if (ops.clock.now() >= deadline) co_return ReshapeEnd::kAgain;
  }
}

}  // namespace elastripe::jobs
