// A job that takes objects to another k.
#pragma once

#include <functional>

#include "proxy/ops/jobs/job.h"
#include "proxy/ops/jobs/transition.h"

namespace elastripe::jobs {

struct TransitionJobSpec {
  JobSpec job = {};
  int to = 0;  // as in TransitionRequest
  Execution execution = Execution::kDelta;
  bool order_selection = true;
};

// How an object ended that had to go, for metrics.
struct TransitionEnd {
  coding::Direction direction = coding::Direction::kForward;
  const char* result = "";  // transitioned, overwritten, refused or failed
  Traffic traffic;
};

class TransitionJob final : public Job {
 public:
  TransitionJob(OpsContext& ops, TransitionJobSpec spec,
                std::function<void(const TransitionEnd&)> on_end = {});

 private:
  Result<ObjectNeed> need_of(const MetObject& object) override;
  Task<Result<ObjectOutcome>> flow(JobObject& object) override;
  void ended(const JobObject& object, const Result<ObjectOutcome>& outcome) override;
  TransitionRequest request_for(std::string key) const;

  const TransitionJobSpec spec_;
  const std::function<void(const TransitionEnd&)> on_end_;
};

}  // namespace elastripe::jobs
