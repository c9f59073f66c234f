// A job that repairs objects: those that survive the fewest further failures go first.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proxy/ops/jobs/job.h"
#include "proxy/ops/jobs/lacking.h"
#include "proxy/ops/jobs/repair.h"

namespace elastripe::jobs {

struct RepairJobSpec {
  JobSpec job = {};
  GivenUp given_up = {};          // as in RepairRequest
  std::optional<NodeId> on = {};  // likewise
  std::string on_name = {};       // of this node
};

class RepairJob final : public Job {
 public:
  RepairJob(OpsContext& ops, RepairJobSpec spec,
            std::function<void(const RepairOutcome&)> on_end = {});

 private:
  Task<Result<void>> look_at(MapPtr map, const node::RecordScanReply& page) override;
  Task<void> look_at_one(MapPtr map, std::string key, RecordPtr record) override;
  Task<Result<void>> ask_nodes(MapPtr map, std::vector<Lacking> objects);
  Result<ObjectNeed> need_for(Lacking& object) const;
  Result<ObjectNeed> need_of(const MetObject& object) override;
  Task<Result<ObjectOutcome>> flow(JobObject& object) override;

  const RepairJobSpec spec_;
  const std::function<void(const RepairOutcome&)> on_end_;
  // What the nodes said of the striped objects of pages that are under way.
  std::unordered_map<std::string, ObjectNeed> looked_at_;
};

}  // namespace elastripe::jobs
