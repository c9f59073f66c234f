// A job that scrubs objects, and repairs what it finds if told to.
#pragma once

#include <string>

#include "proxy/ops/jobs/job.h"
#include "proxy/ops/jobs/scrub.h"

namespace elastripe::jobs {

struct ScrubJobSpec {
  // Its rate is of the bytes that the nodes read: next to none of them cross the network.
  JobSpec job = {};
  bool repairs = false;  // what is missing, bad or wrong is made again, where it can be
};

// What there is to say of a report in one line; empty if it is clean.
std::string problems_of(const ScrubReport& report);

// Objects that are clean, or were made so, are done; others are refused, with what is wrong.
class ScrubJob final : public Job {
 public:
  ScrubJob(OpsContext& ops, ScrubJobSpec spec);

 private:
  Result<ObjectNeed> need_of(const MetObject& object) override;
  Task<Result<ObjectOutcome>> flow(JobObject& object) override;

  const ScrubJobSpec spec_;
};

}  // namespace elastripe::jobs
