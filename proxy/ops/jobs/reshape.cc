#include "proxy/ops/jobs/reshape.h"

#include <algorithm>

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

// Whether the segments that the reshape changes are as it found them.
bool has_same_places(const Reshape& reshape, const node::RecordContent& content) {
  const auto& before = reshape.record->content.segments;
  return std::ranges::all_of(reshape.segments, [&](const auto& changed) {
    const size_t place = changed.first;
    return place < content.segments.size() && content.segments[place] == before[place];
  });
}

// An update leaves most of the data where it is, an append or a prepend all but some at an end:
// then the places of the others are not the same.
bool shares_data(const node::RecordContent& a, const node::RecordContent& b) {
  std::vector<Id128> names;
  names.reserve(b.segments.size());
  for (const node::Segment& segment : b.segments) names.push_back(segment.data_txid);
  std::ranges::sort(names);
  return std::ranges::any_of(a.segments, [&](const node::Segment& segment) {
    return std::ranges::binary_search(names, segment.data_txid);
  });
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
    if (!has_same_places(reshape, current->content)) {
      const bool is_other = current->meta.value_version != reshape.record->meta.value_version &&
                            !shares_data(current->content, reshape.record->content);
      co_return is_other ? ReshapeEnd::kOverwritten : ReshapeEnd::kAgain;
    }
    if (ops.clock.now() >= deadline) co_return ReshapeEnd::kAgain;
  }
}

}  // namespace elastripe::jobs
