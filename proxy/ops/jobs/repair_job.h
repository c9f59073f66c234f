// A job that repairs objects: those that survive the fewest further failures go first.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "proxy/ops/jobs/job.h"
#include "proxy/ops/jobs/repair.h"

namespace elastripe::jobs {

struct RepairJobSpec {
  JobSpec job = {};
  bool gives_up_away = false;  // as in RepairRequest
};

class RepairJob final : public Job {
 public:
  RepairJob(OpsContext& ops, RepairJobSpec spec,
            std::function<void(const RepairOutcome&)> on_end = {});

 private:
  Task<Result<void>> look_at(MapPtr map, const node::RecordScanReply& page) override;
  Result<ObjectNeed> need_of(const MetObject& object) override;
  Task<Result<ObjectOutcome>> flow(JobObject& object) override;

  const bool gives_up_away_;
  const std::function<void(const RepairOutcome&)> on_end_;
  // What the nodes said of the striped objects of pages that are under way.
  std::unordered_map<std::string, ObjectNeed> looked_at_;
};

}  // namespace elastripe::jobs
