#include "proxy/ops/jobs/repair_job.h"

#include <utility>

#include "proxy/ops/attempt.h"
#include "proxy/ops/shards.h"

namespace elastripe::jobs {

namespace {

constexpr int kGoesFirst = 0;

// What it will take to restore what is gone: k blocks of each stripe are read, once. What only
// moves is read as it is.
Result<JobWork> work_of(const Lacking& object) {
  const node::RecordContent& content = object.record->content;
  JobWork work{.objects = 1, .object_bytes = content.size};
  for (size_t i = 0; i < content.segments.size(); ++i) {
    const bool copies = object.gone[i].none();
    const coding::ShardSet& wanted = (copies ? object.leaving : object.gone)[i];
    if (wanted.none()) continue;
    const node::Segment& segment = content.segments[i];
    const auto geometry = geometry_of(content.scheme, segment);
    if (!geometry) return fail(geometry.error());
    const auto blocks = static_cast<size_t>(geometry->codec().layout().blocks());
    if (!copies)
      work.traffic += {.blocks_read = blocks, .bytes_read = blocks * segment.block_bytes};
    for (size_t shard = 0; shard < segment.placement.size(); ++shard) {
      if (!wanted.test(shard)) continue;
      const size_t bytes = geometry->shard_bytes(segment.state, static_cast<int>(shard));
      const size_t moved = bytes / segment.block_bytes;
      work.traffic += {.blocks_sent = moved, .bytes_sent = bytes};
      if (copies) work.traffic += {.blocks_read = moved, .bytes_read = bytes};
      ++work.shards;
    }
  }
  return work;
}

}  // namespace

RepairJob::RepairJob(OpsContext& ops, RepairJobSpec spec,
                     std::function<void(const RepairOutcome&)> on_end)
    : Job(ops, spec.job), spec_(std::move(spec)), on_end_(std::move(on_end)) {}

Result<ObjectNeed> RepairJob::need_for(Lacking& object) const {
  const bool is_lost = object.is_lost();
  const int order = object.failures_survived();
  if (spec_.on) object.keep_only(*spec_.on);
  if (!object.is_lacking() && !object.is_leaving())
    return ObjectNeed{.status = ObjectStatus::kAlreadyThere};
  if (is_lost) {
    return ObjectNeed{.status = ObjectStatus::kRefused,
                      .reason = "more shards are gone than the scheme survives"};
  }
  const auto work = work_of(object);
  if (!work) return fail(work.error());
  return ObjectNeed{.order = order, .work = *work};
}

Task<Result<void>> RepairJob::look_at(MapPtr map, const node::RecordScanReply& page) {
  std::vector<Lacking> objects;
  for (const node::ScannedRecord& scanned : page.records) {
    auto record = node::decode_record(as_bytes(scanned.record));
    if (!record || !record->is_striped() || !is_live_now(ops(), *map, *record)) continue;
    objects.push_back(
        {.key = scanned.key, .record = std::make_shared<const node::Record>(std::move(*record))});
  }
  co_return co_await ask_nodes(std::move(map), std::move(objects));
}

// If the nodes do not tell, its flow asks them again.
Task<void> RepairJob::look_at_one(MapPtr map, std::string key, RecordPtr record) {
  if (!record->is_striped()) co_return;
  std::vector<Lacking> objects;
  objects.push_back({.key = std::move(key), .record = std::move(record)});
  (void)co_await ask_nodes(std::move(map), std::move(objects));
}

// The nodes are asked about all of them at once.
Task<Result<void>> RepairJob::ask_nodes(MapPtr map, std::vector<Lacking> objects) {
  const auto asked = co_await find_lacking(ops(), map, objects, spec_.given_up);
  if (!asked) co_return fail(asked.error());
  // What nobody told of is not there for certain: it is looked at again.
  if (!*asked) co_return fail(ErrorCode::kTimeout, "not all nodes told which shards they have");
  for (Lacking& object : objects) {
    auto need = need_for(object);
    if (need) looked_at_.insert_or_assign(std::move(object.key), std::move(*need));
  }
  co_return Result<void>{};
}

Result<ObjectNeed> RepairJob::need_of(const MetObject& object) {
  if (object.content.kind != node::RecordKind::kStriped) {
    return ObjectNeed{.status = ObjectStatus::kSkipped, .reason = "inline"};
  }
  if (auto looked = looked_at_.extract(object.key)) return std::move(looked.mapped());
  // Nodes did not tell, or it was named: its flow looks for itself.
  return ObjectNeed{.order = kGoesFirst,
                    .work = {.objects = 1, .object_bytes = object.content.size}};
}

Task<Result<ObjectOutcome>> RepairJob::flow(JobObject& object) {
  auto outcome = co_await repair_object(
      ops(),
      {.key = object.key, .given_up = spec_.given_up, .on = spec_.on, .spent = &object.spent});
  if (!outcome) co_return fail(outcome.error());
  if (on_end_) on_end_(*outcome);
  co_return ObjectOutcome{outcome->status, std::move(outcome->reason), outcome->object_bytes,
                          outcome->shards};
}

}  // namespace elastripe::jobs
