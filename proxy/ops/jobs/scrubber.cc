#include "proxy/ops/jobs/scrubber.h"

#include <algorithm>

#include "proxy/async/scope.h"
#include "proxy/base/log.h"
#include "proxy/ops/jobs/job_events.h"

namespace elastripe::jobs {

namespace {
constexpr uint32_t kObjectsAtOnce = 1;  // nobody waits for it
}

Task<void> Scrubber::run() {
  Scope jobs;
  rests_since_ = ops_.clock.now();
  while (co_await ops_.clock.sleep_for(kLookPeriod)) {
    const bool is_ours = ops_.map.works_in_background();
    if (job_ != nullptr) {
      if (!is_ours) job_->cancel();
    } else if (is_ours && is_on() && ops_.clock.now() >= next_at()) {
      jobs.spawn(scrub());
    }
  }
  co_await jobs.join();
}

Task<void> Scrubber::scrub() {
  const LoggedJob logged{.kind = "scrub"};
  job_ = std::make_unique<ScrubJob>(
      ops_, ScrubJobSpec{.job = {.rate = settings_.rate, .parallel = kObjectsAtOnce},
                         .repairs = settings_.repairs});
  log_info("{}", started_line(logged, ops_.map.current()));
  co_await job_->run();
  last_ = job_->progress();
  job_.reset();
  // One that was broken off is due as it was.
  if (last_.state != JobState::kCancelled) {
    rests_since_ = ops_.clock.now();
    ++scrubs_;
  }
  log_info("{}", ended_line(logged, ops_.map.current(), last_));
  for (const JobProblem& problem : last_.problems) {
    log_info("scrub: {}: {}", escape_for_log(problem.key, 250), problem.reason);
  }
}

void Scrubber::change_settings(const ScrubSettings& settings) {
  settings_ = settings;
  if (job_ != nullptr) job_->set_pace(settings_.rate, kObjectsAtOnce);
}

void Scrubber::take_over(Duration due_in) {
  if (is_on())
    rests_since_ = ops_.clock.now() + std::min(due_in, settings_.every) - settings_.every;
}

ScrubStatus Scrubber::status() const {
  const Duration left = is_on() ? next_at() - ops_.clock.now() : Duration::zero();
  return {.is_on = is_on(),
          .is_running = job_ != nullptr,
          .next_in = std::max(left, Duration::zero()),
          .scrubs = scrubs_,
          .progress = job_ != nullptr ? job_->progress() : last_};
}

}  // namespace elastripe::jobs
