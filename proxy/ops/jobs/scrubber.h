// Scrubber: scrubs all objects again and again, in the background.
#pragma once

#include <memory>

#include "proxy/ops/jobs/scrub_job.h"
#include "proxy/ops/jobs/scrub_settings.h"

namespace elastripe::jobs {

struct ScrubStatus {
  bool is_on = true;
  bool is_running = false;
  Duration next_in{};         // unless it runs
  uint64_t scrubs = 0;        // that have ended
  JobProgress progress = {};  // of the one that runs, or of the last one

  // In how many seconds whoever scrubs next begins: at once where this one breaks off. Nothing: not
  // at all.
  std::optional<std::chrono::seconds> due_in() const {
    if (!is_on) return std::nullopt;
    if (is_running) return std::chrono::seconds::zero();
    return std::chrono::floor<std::chrono::seconds>(next_in);
  }
};

// On one thread, that of `ops`. Outlives its run().
class Scrubber {
 public:
  static constexpr Duration kLookPeriod = std::chrono::seconds(1);  // whether it is time

  Scrubber(OpsContext& ops, ScrubSettings settings) : ops_(ops), settings_(settings) {}

  // Until shutdown.
  Task<void> run();
  // Also of the scrub that runs; but whether it repairs, and whether there are any, is for the
  // next.
  void change_settings(const ScrubSettings& settings);
  // This proxy begins to decide, and the one before it would have scrubbed next in so long: now, if
  // it was just doing so.
  void take_over(Duration due_in);
  ScrubStatus status() const;

 private:
  Task<void> scrub();
  bool is_on() const { return settings_.every != Duration::zero(); }
  TimePoint next_at() const { return is_on() ? rests_since_ + settings_.every : TimePoint::max(); }

  OpsContext& ops_;
  ScrubSettings settings_;
  TimePoint rests_since_;
  std::unique_ptr<ScrubJob> job_;
  uint64_t scrubs_ = 0;
  JobProgress last_;
};

}  // namespace elastripe::jobs
