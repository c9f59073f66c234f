// Scrubber: scrubs all objects again and again, in the background.
#pragma once

#include "proxy/ops/jobs/scrub_job.h"
#include "proxy/ops/jobs/scrub_settings.h"

namespace elastripe::jobs {

// On one thread, that of `ops`. Outlives its run().
class Scrubber {
 public:
  Scrubber(OpsContext& ops, ScrubSettings settings) : ops_(ops), settings_(settings) {}

  // Until shutdown; ends at once if it is never to be.
  Task<void> run();
  uint64_t scrubs() const { return scrubs_; }  // that have ended
  const JobProgress& last() const { return last_; }

 private:
  OpsContext& ops_;
  const ScrubSettings settings_;
  uint64_t scrubs_ = 0;
  JobProgress last_;
};

}  // namespace elastripe::jobs
