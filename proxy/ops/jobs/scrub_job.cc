#include "proxy/ops/jobs/scrub_job.h"

#include <algorithm>
#include <utility>

#include "proxy/ops/attempt.h"
#include "proxy/ops/jobs/repair.h"
#include "proxy/ops/shards.h"

namespace elastripe::jobs {

namespace {

void add_part(std::string& text, const std::string& part) {
  text += (text.empty() ? "" : "; ") + part;
}

std::string describe(const SegmentScrub& segment) {
  std::string text;
  const auto add = [&](const std::vector<uint8_t>& shards, const char* what) {
    if (shards.empty()) return;
    std::string list;
    for (const uint8_t index : shards) list += fmt::format(" {}", index);
    text += fmt::format("{}shards{} are {}", text.empty() ? "" : ", ", list, what);
  };
  add(segment.missing, "missing");
  add(segment.bad, "bad");
  add(segment.unreachable, "on nodes that do not answer");
  add(segment.wrong, "not what the others make them");
  if (segment.has_unexplained) {
    text += fmt::format("{}shards do not fit together", text.empty() ? "" : ", ");
  } else if (!segment.data_matches) {
    text += fmt::format("{}data fails its checksum", text.empty() ? "" : ", ");
  }
  return text;
}

bool can_be_restored(const SegmentScrub& segment) { return segment.to_restore().any(); }

}  // namespace

std::string problems_of(const ScrubReport& report) {
  constexpr size_t kMostSegments = 4;
  std::string text;
  size_t unclean = 0;
  for (size_t i = 0; i < report.segments.size(); ++i) {
    if (report.segments[i].is_clean()) continue;
    if (++unclean <= kMostSegments) {
      add_part(text, fmt::format("segment {}: {}", i, describe(report.segments[i])));
    }
  }
  if (unclean > kMostSegments) add_part(text, fmt::format("and {} more", unclean - kMostSegments));
  if (!report.unlike.empty()) add_part(text, "copies of the record differ");
  return text;
}

ScrubJob::ScrubJob(OpsContext& ops, ScrubJobSpec spec) : Job(ops, spec.job), spec_(spec) {}

Result<ObjectNeed> ScrubJob::need_of(const MetObject& object) {
  const node::RecordContent& content = object.content;
  ObjectNeed need{.work = {.objects = 1, .object_bytes = content.size}};
  // Its copies are compared, each as it is.
  if (content.kind == node::RecordKind::kInline) {
    need.work.traffic.bytes_read = content.size * (content.scheme.m + uint64_t{1});
  }
  for (const node::Segment& segment : content.segments) {
    const auto geometry = geometry_of(content.scheme, segment);
    if (!geometry) return fail(geometry.error());
    for (size_t i = 0; i < segment.placement.size(); ++i) {
      const size_t bytes = geometry->shard_bytes(segment.state, static_cast<int>(i));
      need.work.traffic += {.blocks_read = bytes / segment.block_bytes, .bytes_read = bytes};
    }
  }
  return need;
}

Task<Result<ObjectOutcome>> ScrubJob::flow(JobObject& object) {
  const auto report = co_await scrub_object(ops(), object.key, fresh_deadline(ops()));
  if (!report) co_return fail(report.error());
  object.spent.bytes_read += report->bytes;
  if (report->segments.empty()) object.spent += object.work.traffic;
  if (report->record == nullptr) co_return ObjectOutcome{ObjectStatus::kNoObject};
  ObjectOutcome outcome{.object_bytes = report->record->content.size};
  if (report->is_clean()) co_return outcome;
  outcome.status = ObjectStatus::kRefused;
  outcome.reason = problems_of(*report);
  const bool restores = spec_.repairs && std::ranges::any_of(report->segments, can_be_restored);
  const bool rewrites = spec_.repairs && !report->unlike.empty();
  if (!restores && !rewrites) co_return outcome;
  if (rewrites) {
    const auto rewritten = co_await rewrite_record(ops(), object.key, report->record);
    if (!rewritten) co_return fail(rewritten.error());
  }
  if (restores) {
    const auto repaired = co_await repair_object(
        ops(), {.key = object.key, .scrubbed = &*report, .spent = &object.spent});
    if (!repaired) co_return fail(repaired.error());
    outcome.shards = repaired->shards;
    if (repaired->status == ObjectStatus::kRefused) outcome.reason += "; " + repaired->reason;
    const bool is_settled =
        repaired->status == ObjectStatus::kDone || repaired->status == ObjectStatus::kOverwritten;
    if (!is_settled) co_return outcome;
  }
  const auto again = co_await scrub_object(ops(), object.key, fresh_deadline(ops()));
  if (!again) co_return fail(again.error());
  object.spent.bytes_read += again->bytes;
  outcome.reason = problems_of(*again);
  if (again->is_clean()) outcome.status = ObjectStatus::kDone;
  co_return outcome;
}

}  // namespace elastripe::jobs
