// What the log tells of jobs: one line when they start, and one when they have ended.
#pragma once

#include <string>
#include <string_view>

#include "proxy/ops/context.h"
#include "proxy/ops/jobs/job_progress.h"

namespace elastripe::jobs {

struct LoggedJob {
  std::string_view kind;  // repair
  uint64_t id = 0;        // 0: nobody has asked for it
  bool dry_run = false;
};

// `map`: the newest; null if none is served.
// `runs`: how many times it was begun, by any proxy.
std::string started_line(const LoggedJob& job, const MapPtr& map, uint32_t runs = 1);
// Another proxy goes on with it.
std::string left_line(const LoggedJob& job, const MapPtr& map);
std::string ended_line(const LoggedJob& job, const MapPtr& map, const JobProgress& progress);

}  // namespace elastripe::jobs
