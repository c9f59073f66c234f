#include "tests/sim/job_runner.h"

#include <fmt/core.h>

#include <cstdio>
#include <optional>

using namespace elastripe::jobs;

namespace elastripe::sim {

namespace {

std::optional<JobOrder> parse(const std::string& text) {
  JobOrder order;
  char end[8] = {};
  if (std::sscanf(text.c_str(), "%u steps of %u ms, and %7s", &order.steps, &order.step_ms, end) !=
      3) {
    return std::nullopt;
  }
  order.fails = std::string(end) == "fail";
  return order;
}

}  // namespace

std::string JobOrder::to_text() const {
  return fmt::format("{} steps of {} ms, and {}", steps, step_ms, fails ? "fail" : "end");
}

decider::JobRunner SimJobRunner::interface() {
  return {.run = [this](const ClusterJob& job) { return begin(job); },
          .cancel = [this](uint64_t id) { cancel(id); },
          .leave = [this] { running_.clear(); },
          .ended_report =
              [](const std::string& report, const JobProgress& end) {
                return fmt::format("{}; {}", report, end.reason);
              }};
}

Result<void> SimJobRunner::begin(const ClusterJob& job) {
  const auto order = parse(job.order);
  if (!order) return fail(ErrorCode::kInvalid, "that is no order: {}", job.order);
  Running& running = running_[job.id];
  running = {.job = job, .order = *order};
  tell(running, JobState::kRunning);
  flows_.spawn(run(job.id, job.term));
  return {};
}

void SimJobRunner::cancel(uint64_t id) {
  const auto running = running_.find(id);
  if (running == running_.end()) return;
  running->second.is_cancelled = true;
  tell(running->second, JobState::kRunning);
}

SimJobRunner::Running* SimJobRunner::find(uint64_t id, uint32_t term) {
  const auto running = running_.find(id);
  const bool is_here = running != running_.end() && running->second.job.term == term;
  return is_here ? &running->second : nullptr;
}

// What runs may be left, or begun anew in another term, at every wait.
Task<void> SimJobRunner::run(uint64_t id, uint32_t term) {
  const bool goes_on = co_await clock_.next_turn();
  const Semaphore::Permit place = co_await places_.acquire(1);
  if (!goes_on) co_return;
  for (Running* at = find(id, term); at != nullptr; at = find(id, term)) {
    if (at->is_cancelled || at->done == at->order.steps) break;
    if (!co_await clock_.sleep_for(std::chrono::milliseconds(at->order.step_ms))) co_return;
    at = find(id, term);
    if (at == nullptr) co_return;
    ++at->done;
    if (at->done < at->order.steps && !at->is_cancelled) tell(*at, JobState::kRunning);
  }
  const Running* const ended = find(id, term);
  if (ended == nullptr) co_return;
  if (ended->is_cancelled) {
    tell(*ended, JobState::kCancelled);
  } else if (ended->order.fails) {
    tell(*ended, JobState::kFailed, kFailsByOrder);
  } else {
    tell(*ended, JobState::kDone);
  }
  ended_.emplace(id, ended->job.token);
  running_.erase(id);
}

void SimJobRunner::tell(const Running& running, JobState state, std::string reason) {
  JobProgress progress;
  progress.state = state;
  progress.cancelling = running.is_cancelled;
  std::string report =
      fmt::format("{} of {} steps{}{}{}", running.done, running.order.steps,
                  running.is_cancelled ? ", cancelled" : "", reason.empty() ? "" : "; ", reason);
  progress.reason = std::move(reason);
  book_.tell(running.job.id, running.job.term, progress, std::move(report));
}

}  // namespace elastripe::sim
