#include "proxy/ops/jobs/recycle_job.h"

#include <utility>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/jobs/pages.h"
#include "proxy/ops/objects/baselines/in_place_update.h"
#include "proxy/ops/objects/fold.h"
#include "proxy/ops/records/read_tail.h"

namespace elastripe::jobs {

namespace {

using BytesByKey = std::unordered_map<std::string, uint64_t>;

constexpr uint32_t kLogsPerFrame = 4096;

// Data nodes get the bytes and answer by how much they change, each parity node gets as much.
Traffic traffic_of(const coding::Scheme& scheme, uint64_t log_bytes) {
  return {.bytes_read = log_bytes, .bytes_sent = log_bytes * (scheme.m + uint64_t{1})};
}

Task<Result<bool>> add_logs(BytesByKey& logs, node::LogScanReply& told) {
  for (node::ScannedLog& log : told.logs) logs[std::move(log.key)] = log.bytes;
  co_return true;
}

}  // namespace

RecycleJob::RecycleJob(OpsContext& ops, RecycleJobSpec spec)
    : Job(ops, spec.job), is_of_one_(!spec.job.key.empty()) {}

// It is asked for every page, after the page was: so a log that is not told of was folded by then,
// or has nothing but what came after the job began.
Task<Result<void>> RecycleJob::look_at(MapPtr map, const node::RecordScanReply& page) {
  if (page.records.empty()) co_return Result<void>{};
  const NodeId tail = chain_of(*map, page.records.front().key).tail();
  BytesByKey logs;
  if (map->capabilities.has(node::Capability::kUpdateLogs)) {
    const auto told =
        co_await for_each_page(ops(), map, tail, node::LogScanRequest{.max_entries = kLogsPerFrame},
                               [&logs](node::LogScanReply& some) { return add_logs(logs, some); });
    if (!told) co_return fail(told.error());
  }
  logs_[tail] = std::move(logs);
  co_return Result<void>{};
}

// Its flow finds out.
Task<void> RecycleJob::look_at_one(MapPtr map, std::string key, RecordPtr) {
  logs_[chain_of(*map, key).tail()].try_emplace(std::move(key), 0);
  co_return;
}

Result<ObjectNeed> RecycleJob::need_of(const MetObject& object) {
  const node::RecordContent& content = object.content;
  if (content.kind != node::RecordKind::kStriped) {
    return ObjectNeed{.status = ObjectStatus::kSkipped, .reason = "inline"};
  }
  ObjectNeed need{.work = {.objects = 1, .object_bytes = content.size}};
  if (is_of_one_) return need;
  const auto& logs = logs_[chain_of(object.map, object.key).tail()];
  const auto log = logs.find(object.key);
  if (log != logs.end()) {
    need.work.traffic = traffic_of(content.scheme, log->second);
  } else if (!is_drained(object.key)) {
    return ObjectNeed{.status = ObjectStatus::kAlreadyThere};
  }
  return need;
}

bool RecycleJob::is_drained(std::string_view key) {
  return is_in_place(ops().pools.pool_of(key).updates);
}

// A fold that the object was changed under begins again, with what has come since.
Task<Result<bool>> RecycleJob::fold(std::string key) {
  const TimePoint deadline = fresh_deadline(ops());
  for (bool has_folded = false;;) {
    const auto end = co_await objects::fold_object(ops(), key, fresh_deadline(ops()));
    if (!end) co_return fail(end.error());
    has_folded |= *end == objects::FoldEnd::kFolded || *end == objects::FoldEnd::kPart;
    if (*end == objects::FoldEnd::kFolded || *end == objects::FoldEnd::kNothing) {
      co_return has_folded;
    }
    if (ops().clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "the object was changed again and again");
    }
  }
}

Task<Result<std::optional<RecycleJob::Drained>>> RecycleJob::try_drain(MapPtr map, std::string key,
                                                                       TimePoint deadline) {
  const auto tail = co_await records::try_read_tail(ops(), map, key, /*if_version=*/0, deadline);
  if (!tail) co_return fail(tail.error());
  const RecordPtr record = tail->record;
  if (record == nullptr || !record->is_striped()) co_return Drained{};
  const auto drained = co_await objects::drain_updates(ops(), map, record, deadline);
  if (drained) co_return Drained{};
  if (drained.error().code != ErrorCode::kNotFound) co_return fail(drained.error());
  // Who changed the object has deleted the shard, or it is missing.
  const auto now = co_await records::try_read_tail(ops(), map, key, /*if_version=*/0, deadline);
  if (!now) co_return fail(now.error());
  const bool is_same =
      now->record != nullptr && now->record->content.segments == record->content.segments;
  if (is_same) co_return fail(drained.error());
  co_return std::nullopt;
}

// First the log: it may have updates from when the pool had another method.
Task<Result<ObjectOutcome>> RecycleJob::flow(JobObject& object) {
  const auto folded = co_await fold(object.key);
  if (!folded) co_return fail(folded.error());
  const bool drains = is_drained(object.key);
  if (drains) {
    const auto drained = co_await under_newest_map(
        ops(), fresh_deadline(ops()), [this, &object](const MapPtr& map, TimePoint& until) {
          return try_drain(map, object.key, until);
        });
    if (!drained) co_return fail(drained.error());
  }
  if (!*folded && !drains) co_return ObjectOutcome{ObjectStatus::kAlreadyThere};
  object.spent += object.work.traffic;
  co_return ObjectOutcome{.object_bytes = object.work.object_bytes};
}

}  // namespace elastripe::jobs
