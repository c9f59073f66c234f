// Jobs that somebody has asked for, as the admin interface shows them (docs/admin-api.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proxy/admin/job_kinds.h"

namespace elastripe {

struct JobReport {
  uint64_t id = 0;  // from 1, of this process
  AskedJob asked;
  jobs::JobProgress progress;

  const JobKind& kind() const { return kind_of(asked); }
  bool is_running() const { return progress.is_running(); }
};
// Null: no job has been started.
using JobReports = std::shared_ptr<const std::vector<JobReport>>;

std::string job_json(const JobReport& report);
// Those of a kind, or of all.
std::string jobs_json(const JobReports& reports, const JobKind* kind);

}  // namespace elastripe
