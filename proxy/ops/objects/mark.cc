#include "proxy/ops/objects/mark.h"

#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/put.h"

namespace elastripe::objects {

Result<void> check_marks(const OpsContext& ops) {
  const auto map = current_map(ops);
  if (!map) return fail(map.error());
  if ((*map)->capabilities.has(node::Capability::kMarks)) return {};
  return fail(ErrorCode::kUnavailable, "not before all nodes are of the new version");
}

Task<Result<records::CommitResult>> commit_mark(OpsContext& ops, std::string_view key,
                                                const ObjectRead& read, Mark mark,
                                                TimePoint deadline) {
  if (auto checked = check_marks(ops); !checked) co_return fail(checked.error());
  const auto guard = co_await ops.locks.lock(key);
  const node::Record& record = *read.record();
  records::Commit commit;
  commit.key = key;
  commit.condition = node::Condition::kIfVersion;
  commit.condition_argument = record.meta.version;
  commit.known_version = record.meta.version;
  commit.made_of_cas = read.cas();
  commit.mutation = node::Mutation::kMark;
  commit.content.exptime = mark.exptime;
  commit.content.marks = mark.marks;
  commit.content.cas = mark.cas;
  auto result = co_await records::commit_record(ops, commit, deadline);
  if (result) after_commit(ops, key, *result);
  co_return result;
}

}  // namespace elastripe::objects
