// The kinds of jobs that somebody can ask a proxy for. A further one is one more spec of AskedJob,
// its spec_json() and parse function, and a row of the table; what runs it is
// MaintenanceThread::make().
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <variant>

#include "proxy/ops/jobs/rebalance_job.h"
#include "proxy/ops/jobs/recycle_job.h"
#include "proxy/ops/jobs/repair_job.h"
#include "proxy/ops/jobs/scrub_job.h"
#include "proxy/ops/jobs/transition_job.h"

namespace elastripe {

using AskedJob = std::variant<jobs::TransitionJobSpec, jobs::RepairJobSpec, jobs::ScrubJobSpec,
                              jobs::RebalanceJobSpec, jobs::RecycleJobSpec>;

struct JobKind {
  std::string_view name;   // of one: what the header X-Elastripe of its requests says
  std::string_view path;   // takes and shows those of the kind
  std::string_view list;   // the field that has all of them
  std::string_view phase;  // while it does what it is for
  std::string_view done;   // the count of the objects that it has done that with
  // The body of a POST to the path. `map` knows the nodes; null if none is served. kInvalid tells
  // where and why.
  Result<AskedJob> (*parse)(std::string_view body, const MapPtr& map);
};

// By the index of AskedJob.
std::span<const JobKind> job_kinds();

inline const JobKind& kind_of(const AskedJob& asked) { return job_kinds()[asked.index()]; }
inline const jobs::JobSpec& common_spec(const AskedJob& asked) {
  return std::visit([](const auto& spec) -> const jobs::JobSpec& { return spec.job; }, asked);
}

Result<jobs::TransitionJobSpec> parse_transition(std::string_view body);
Result<jobs::RepairJobSpec> parse_repair(std::string_view body, const MapPtr& map);
Result<jobs::ScrubJobSpec> parse_scrub(std::string_view body);
Result<jobs::RebalanceJobSpec> parse_rebalance(std::string_view body);
Result<jobs::RecycleJobSpec> parse_recycle(std::string_view body);

// What was asked for, as the report tells it.
nlohmann::ordered_json spec_json(const jobs::TransitionJobSpec& spec);
nlohmann::ordered_json spec_json(const jobs::RepairJobSpec& spec);
nlohmann::ordered_json spec_json(const jobs::ScrubJobSpec& spec);
nlohmann::ordered_json spec_json(const jobs::RebalanceJobSpec& spec);
nlohmann::ordered_json spec_json(const jobs::RecycleJobSpec& spec);

}  // namespace elastripe
