// Transition jobs as the admin interface shows and takes them (docs/admin-api.md): pure functions
// between JSON texts and what they say.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/ops/jobs/transition_job.h"

namespace elastripe {

struct TransitionReport {
  uint64_t id = 0;  // from 1, of this process
  jobs::TransitionJobSpec spec;
  jobs::JobProgress progress;

  bool is_running() const { return progress.is_running(); }
};
// Null: no job has been started.
using TransitionReports = std::shared_ptr<const std::vector<TransitionReport>>;

// The body of POST /v1/transitions. kInvalid tells where and why.
Result<jobs::TransitionJobSpec> parse_transition(std::string_view body);

std::string transition_json(const TransitionReport& report);
std::string transitions_json(const TransitionReports& reports);

}  // namespace elastripe
