// Scrubber: scrubs all objects again and again, in the background.
#pragma once

#include <memory>

#include "proxy/ops/jobs/scrub_job.h"
#include "proxy/ops/jobs/scrub_settings.h"

namespace elastripe::jobs {

struct ScrubStatus {
  bool is_on = true;
  bool is_running = false;
  Duration next_in{};    // unless it runs
  uint64_t scrubs = 0;   // that have ended
  JobProgress progress;  // of the one that runs, or of the last one
};

// On one thread, that of `ops`. Outlives its run().
class Scrubber {
 public:
  Scrubber(OpsContext& ops, ScrubSettings settings) : ops_(ops), settings_(settings) {}

  // Until shutdown; ends at once if it is never to be.
  Task<void> run();
  ScrubStatus status() const;

 private:
  OpsContext& ops_;
  const ScrubSettings settings_;
  TimePoint next_at_;
  std::unique_ptr<ScrubJob> job_;
  uint64_t scrubs_ = 0;
  JobProgress last_;
};

}  // namespace elastripe::jobs
