// Jobs that somebody has asked for, as the admin interface shows them (docs/admin-api.md).
#pragma once

#include <string>
#include <vector>

#include "proxy/admin/job_kinds.h"
#include "proxy/ops/jobs/job_book.h"

namespace elastripe {

struct JobReport {
  uint64_t id = 0;
  uint32_t runs = 1;  // how many times it was begun
  AskedJob asked;
  jobs::JobProgress progress;

  const JobKind& kind() const { return kind_of(asked); }
};

// At most ClusterJob::kMaxReportBytes: of many problems, the first ones.
std::string job_json(const JobReport& report);
// A report of a job that has ended without being run any more.
std::string ended_job_json(const std::string& report, const jobs::JobProgress& end);
// Those of a kind, or of all.
std::string jobs_json(const std::vector<jobs::ClusterJob>& jobs, const JobKind* kind);

}  // namespace elastripe
