#include "proxy/admin/job_report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "proxy/base/bytes.h"

namespace elastripe {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxReasonBytes = 300;  // of a job that ends without a run

// To the microsecond.
double seconds(Duration duration) {
  return std::round(std::chrono::duration<double>(duration).count() * 1e6) / 1e6;
}

Json work_json(const jobs::JobWork& work) {
  return {{"objects", work.objects},
          {"object_bytes", work.object_bytes},
          {"read_blocks", work.traffic.blocks_read},
          {"sent_blocks", work.traffic.blocks_sent},
          {"read_bytes", work.traffic.bytes_read},
          {"sent_bytes", work.traffic.bytes_sent},
          {"parity_bytes_before", work.parity.before},
          {"parity_bytes_after", work.parity.after},
          {"shards", work.shards}};
}

Json times_json(const jobs::ObjectTimes& times) {
  return {{"mean", seconds(times.mean())},
          {"p50", seconds(times.quantile(0.5))},
          {"p90", seconds(times.quantile(0.9))},
          {"p99", seconds(times.quantile(0.99))},
          {"max", seconds(times.most())}};
}

Json counts_json(const jobs::JobCounts& counts, std::string_view done) {
  Json skipped = Json::object();
  for (const auto& [reason, count] : counts.skipped) skipped[reason] = count;
  return {{"seen", counts.seen},
          {std::string(done), counts.done},
          {"already_there", counts.already_there},
          {"skipped", skipped},
          {"no_object", counts.no_object},
          {"overwritten", counts.overwritten},
          {"refused", counts.refused},
          {"failed", counts.failed}};
}

Json report_json(const JobReport& report) {
  const jobs::JobProgress& progress = report.progress;
  const JobKind& kind = report.kind();
  Json problems = Json::array();
  for (const jobs::JobProblem& problem : progress.problems) {
    problems.push_back({{"key", escape_for_log(problem.key, 250)}, {"reason", problem.reason}});
  }
  return {{"id", report.id},
          {"kind", kind.name},
          {"state", jobs::state_name(progress)},
          {"runs", report.runs},
          {"phase", common_spec(report.asked).dry_run ? "counting" : kind.phase},
          {"counted", progress.counted},
          {"reason", progress.reason},
          {"spec", std::visit([](const auto& spec) { return spec_json(spec); }, report.asked)},
          {"seconds", seconds(progress.elapsed)},
          {"partitions", {{"total", progress.partitions}, {"done", progress.partitions_done}}},
          {"counts", counts_json(progress.counts, kind.done)},
          {"planned", work_json(progress.planned)},
          {"done", work_json(progress.done)},
          {"settled_bytes", progress.settled_bytes},
          {"object_seconds", times_json(progress.object_times)},
          {"problems", problems}};
}

// Reasons may name keys and nodes: bytes that are no UTF-8 must not throw.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string job_json(const JobReport& report) {
  Json json = report_json(report);
  std::string text = text_of(json);
  while (text.size() > jobs::ClusterJob::kMaxReportBytes && !json["problems"].empty()) {
    json["problems"].erase(json["problems"].size() - 1);
    text = text_of(json);
  }
  return text;
}

std::string ended_job_json(const std::string& report, const jobs::JobProgress& end) {
  Json json = Json::parse(report, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) json = Json::object();
  json["state"] = jobs::state_name(end);
  json["reason"] = end.reason.substr(0, kMaxReasonBytes);
  return text_of(json);
}

std::string jobs_json(const std::vector<jobs::ClusterJob>& jobs, const JobKind* kind) {
  Json list = Json::array();
  for (const jobs::ClusterJob& job : jobs) {
    if (kind != nullptr && kind->name != job.kind) continue;
    Json json = Json::parse(job.report, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) list.push_back(std::move(json));
  }
  return text_of({{kind == nullptr ? "jobs" : std::string(kind->list), list}});
}

}  // namespace elastripe
