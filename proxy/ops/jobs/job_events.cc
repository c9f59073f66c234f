#include "proxy/ops/jobs/job_events.h"

#include <fmt/core.h>

#include "proxy/base/log_fields.h"

namespace elastripe::jobs {
namespace {

LogFields event(const char* name, const LoggedJob& job, const MapPtr& map) {
  LogFields fields;
  fields.add("event", name);
  if (job.id == 0) {
    fields.add("trigger", "automatic");
  } else {
    fields.add("trigger", "operator").add("id", job.id);
  }
  if (job.dry_run) fields.add("dry_run", "true");
  return fields.add("epoch", map == nullptr ? 0 : map->epoch.number);
}

}  // namespace

std::string started_line(const LoggedJob& job, const MapPtr& map, uint32_t runs) {
  LogFields fields = event("started", job, map);
  if (runs > 1) fields.add("runs", runs);
  return fmt::format("{}: {}", job.kind, fields.text());
}

std::string left_line(const LoggedJob& job, const MapPtr& map) {
  return fmt::format("{}: {}", job.kind, event("left", job, map).text());
}

std::string ended_line(const LoggedJob& job, const MapPtr& map, const JobProgress& progress) {
  LogFields fields = event("ended", job, map);
  fields.add("state", state_name(progress))
      .add("seen", progress.counts.seen)
      .add("objects", progress.counts.done)
      .add("shards", progress.done.shards)
      .add("bytes", progress.done.traffic.bytes())
      .add("refused", progress.counts.refused)
      .add("failed", progress.counts.failed)
      .add_seconds("seconds", std::chrono::duration<double>(progress.elapsed).count())
      .add_if_any("reason", progress.reason);
  return fmt::format("{}: {}", job.kind, fields.text());
}

}  // namespace elastripe::jobs
