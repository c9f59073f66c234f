// What is told of a job, whatever it does with objects (job.h): which ones, how fast, how far.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proxy/async/clock.h"
#include "proxy/base/duration_summary.h"
#include "proxy/ops/jobs/job_work.h"

namespace elastripe::jobs {

struct JobSpec {
  std::string key = {};     // of the one object; empty: many
  std::string prefix = {};  // of the keys of many; empty: all
  bool dry_run = false;     // counts only, touches nothing
  uint64_t rate = 0;        // bytes a second on the network, on average; 0: no limit
  uint32_t parallel = 4;    // objects at a time, at least 1
  // Records in one answer to a scan; those that do not fit are named, and read one by one.
  uint32_t page_bytes = 256 << 10;
};

// Values are on the wire: never renumber.
enum class JobState : uint8_t {
  kRunning,
  kDone,       // every object was met; the counts tell how it went with them
  kCancelled,  // by cancel()
  kFailed,     // `reason` tells why; what was done stays done
};

// Every object is counted once: `seen` is the sum of the rest (and, of a dry run, of what is
// planned). A partition that is walked again takes back what needed nothing in it.
struct JobCounts {
  uint64_t seen = 0;
  uint64_t done = 0;
  uint64_t already_there = 0;
  std::map<std::string, uint64_t> skipped;  // by reason
  uint64_t no_object = 0;                   // of the key; or deleted before its turn came
  uint64_t overwritten = 0;
  uint64_t refused = 0;  // shards are missing
  uint64_t failed = 0;   // errors, unknown outcomes among them

  JobCounts& operator+=(const JobCounts& other);
};

struct JobProblem {
  std::string key;
  std::string reason;
};

using ObjectTimes = DurationSummary<16>;

struct JobProgress {
  JobState state = JobState::kRunning;
  bool counted = false;     // the walk is over: `planned` is all of it
  bool cancelling = false;  // what is running still ends
  std::string reason;       // kFailed: why; kRunning: what it waits for, if anything
  JobCounts counts;
  JobWork planned;             // as far as it is counted
  JobWork done;                // traffic is of all tries of all objects
  uint64_t settled_bytes = 0;  // of planned.traffic: of objects whose turn is over
  uint64_t partitions = 0;     // to walk
  uint64_t partitions_done = 0;
  Duration elapsed{};
  ObjectTimes object_times;          // of those done, each from its start to its end
  std::vector<JobProblem> problems;  // the first Job::kMaxProblems: refused or failed

  bool is_running() const { return state == JobState::kRunning; }
};

// As people read it: "cancelling", too.
const char* state_name(const JobProgress& progress);

}  // namespace elastripe::jobs
