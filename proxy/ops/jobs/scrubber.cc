#include "proxy/ops/jobs/scrubber.h"

#include <algorithm>

#include "proxy/base/log.h"
#include "proxy/ops/jobs/job_events.h"

namespace elastripe::jobs {

Task<void> Scrubber::run() {
  if (settings_.every == Duration::zero()) co_return;
  const LoggedJob logged{.kind = "scrub"};
  for (;;) {
    next_at_ = ops_.clock.now() + settings_.every;
    if (!co_await ops_.clock.sleep_until(next_at_)) co_return;
    // One object at a time: nobody waits for it.
    job_ = std::make_unique<ScrubJob>(
        ops_,
        ScrubJobSpec{.job = {.rate = settings_.rate, .parallel = 1}, .repairs = settings_.repairs});
    log_info("{}", started_line(logged, ops_.map.current()));
    co_await job_->run();
    last_ = job_->progress();
    job_.reset();
    ++scrubs_;
    log_info("{}", ended_line(logged, ops_.map.current(), last_));
    for (const JobProblem& problem : last_.problems) {
      log_info("scrub: {}: {}", escape_for_log(problem.key, 250), problem.reason);
    }
  }
}

ScrubStatus Scrubber::status() const {
  return {.is_on = settings_.every != Duration::zero(),
          .is_running = job_ != nullptr,
          .next_in = std::max(next_at_ - ops_.clock.now(), Duration::zero()),
          .scrubs = scrubs_,
          .progress = job_ != nullptr ? job_->progress() : last_};
}

}  // namespace elastripe::jobs
