#include "proxy/ops/jobs/rebalance_job.h"

#include <utility>

#include "proxy/ops/jobs/repair.h"

namespace elastripe::jobs {

RebalanceJob::RebalanceJob(OpsContext& ops, RebalanceJobSpec spec)
    : Job(ops, std::move(spec.job)) {}

Result<ObjectNeed> RebalanceJob::need_of(const MetObject& object) {
  const node::RecordContent& content = object.content;
  if (content.kind != node::RecordKind::kStriped) {
    return ObjectNeed{.status = ObjectStatus::kSkipped, .reason = "inline"};
  }
  if (!planned_) planned_ = moved_ = Balance(object.map, *ops().map.rooms());
  JobWork work{.objects = 1, .object_bytes = content.size};
  for (const node::Segment& segment : content.segments) {
    for (const ShardMove& move : planned_->take(object.map, content.scheme, segment)) {
      const uint64_t blocks = move.bytes / segment.block_bytes;
      work.traffic += {.blocks_read = blocks,
                       .blocks_sent = blocks,
                       .bytes_read = move.bytes,
                       .bytes_sent = move.bytes};
      ++work.shards;
    }
  }
  if (work.shards == 0) return ObjectNeed{.status = ObjectStatus::kAlreadyThere};
  return ObjectNeed{.work = work};
}

Task<Result<ObjectOutcome>> RebalanceJob::flow(JobObject& object) {
  auto outcome = co_await repair_object(
      ops(), {.key = object.key, .balance = &*moved_, .spent = &object.spent});
  if (!outcome) co_return fail(outcome.error());
  co_return ObjectOutcome{outcome->status, std::move(outcome->reason), outcome->object_bytes,
                          outcome->shards};
}

}  // namespace elastripe::jobs
