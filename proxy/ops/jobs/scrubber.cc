#include "proxy/ops/jobs/scrubber.h"

#include "proxy/base/log.h"

namespace elastripe::jobs {

Task<void> Scrubber::run() {
  if (settings_.every == Duration::zero()) co_return;
  while (co_await ops_.clock.sleep_for(settings_.every)) {
    // One object at a time: nobody waits for it.
    ScrubJob job(ops_,
                 {.job = {.rate = settings_.rate, .parallel = 1}, .repairs = settings_.repairs});
    co_await job.run();
    last_ = job.progress();
    ++scrubs_;
    const JobCounts& counts = last_.counts;
    log_info("scrub: {} objects are clean, {} are not, {} failed{}{}", counts.done, counts.refused,
             counts.failed, last_.reason.empty() ? "" : ": ", last_.reason);
    for (const JobProblem& problem : last_.problems) {
      log_info("scrub: {}: {}", escape_for_log(problem.key, 250), problem.reason);
    }
  }
}

}  // namespace elastripe::jobs
