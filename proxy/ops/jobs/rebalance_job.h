// A job that moves shards from nodes that are full to nodes that are empty, by copying, until the
// nodes are equally full (balance.h).
#pragma once

#include <optional>

#include "proxy/ops/jobs/balance.h"
#include "proxy/ops/jobs/job.h"

namespace elastripe::jobs {

struct RebalanceJobSpec {
  // It can wait, and clients go first.
  static constexpr uint64_t kDefaultRate = 50 << 20;

  JobSpec job = {.rate = kDefaultRate};
};

class RebalanceJob final : public Job {
 public:
  RebalanceJob(OpsContext& ops, RebalanceJobSpec spec);

 private:
  Result<ObjectNeed> need_of(const MetObject& object) override;
  Task<Result<ObjectOutcome>> flow(JobObject& object) override;

  // By how full the nodes were when the first object was met. One is told what is to go, the other
  // what goes: by then an object may be another one.
  std::optional<Balance> planned_;
  std::optional<Balance> moved_;
};

}  // namespace elastripe::jobs
