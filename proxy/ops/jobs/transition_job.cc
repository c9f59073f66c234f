#include "proxy/ops/jobs/transition_job.h"

#include <utility>

namespace elastripe::jobs {

namespace {

// What an object ended with, as a metric's label; null if nothing had to go after all.
const char* result_name(ObjectStatus status) {
  switch (status) {
    case ObjectStatus::kDone:
      return "transitioned";
    case ObjectStatus::kOverwritten:
      return "overwritten";
    case ObjectStatus::kRefused:
      return "refused";
    default:
      return nullptr;
  }
}

}  // namespace

TransitionJob::TransitionJob(OpsContext& ops, TransitionJobSpec spec,
                             std::function<void(const TransitionEnd&)> on_end)
    : Job(ops, spec.job), spec_(std::move(spec)), on_end_(std::move(on_end)) {}

TransitionRequest TransitionJob::request_for(std::string key) const {
  return {.key = std::move(key),
          .to = spec_.to,
          .execution = spec_.execution,
          .order_selection = spec_.order_selection};
}

Result<ObjectNeed> TransitionJob::need_of(const MetObject& object) {
  const node::RecordContent& content = object.content;
  TransitionNeed need = transition_need(content, spec_.to);
  ObjectNeed found{.status = need.status,
                   .reason = std::move(need.reason),
                   .kind = static_cast<int>(need.direction)};
  if (need.status != ObjectStatus::kDone) return found;
  const auto traffic = expected_traffic(content, request_for({}));
  if (!traffic) return fail(traffic.error());
  const auto parity = parity_bytes(content, spec_.to);
  if (!parity) return fail(parity.error());
  found.work = {1, content.size, *traffic, *parity};
  return found;
}

Task<Result<ObjectOutcome>> TransitionJob::flow(JobObject& object) {
  TransitionRequest request = request_for(object.key);
  request.known = object.record;
  request.known_may_be_old = object.may_be_old;
  request.spent = &object.spent;
  auto outcome = co_await transition_object(ops(), std::move(request));
  if (!outcome) co_return fail(std::move(outcome.error()));
  co_return ObjectOutcome{outcome->status, std::move(outcome->reason), outcome->object_bytes};
}

void TransitionJob::ended(const JobObject& object, const Result<ObjectOutcome>& outcome) {
  const char* result = outcome ? result_name(outcome->status) : "failed";
  if (!on_end_ || result == nullptr) return;
  on_end_({static_cast<coding::Direction>(object.kind), result, object.spent});
}

}  // namespace elastripe::jobs
