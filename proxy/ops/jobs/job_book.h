// JobBook: the jobs that somebody has asked for, as this proxy knows them: all proxies tell each
// other (docs/decider.md), so that any of them can show a job, and whoever decides next goes on
// with it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "proxy/base/error.h"
#include "proxy/ops/jobs/job_progress.h"

namespace elastripe::jobs {

struct ClusterJob {
  static constexpr size_t kMaxOrderBytes = 4 << 10;
  static constexpr size_t kMaxReportBytes = 6 << 10;

  uint64_t id = 0;         // from 1, of the cluster
  uint64_t token = 0;      // of whoever asked, who asks again where no answer came
  std::string kind = {};   // "transition"
  std::string order = {};  // what was asked for: a JSON object (docs/admin-api.md)
  uint32_t term = 0;       // the epoch in which the proxy began to serve that runs it
  uint32_t version = 0;    // of what that one tells: a later term counts, then a later version
  uint32_t runs = 0;       // how many times it was begun
  JobState state = JobState::kRunning;
  bool cancelling = false;
  std::string report = {};  // as it is shown: a JSON object

  bool is_running() const { return state == JobState::kRunning; }
  friend bool operator==(const ClusterJob&, const ClusterJob&) = default;
};

// Any thread.
class JobBook {
 public:
  static constexpr size_t kRemembered = 16;

  // All else is of another cluster, and forgotten, if it is.
  void belong_to(uint64_t cluster_id);

  std::vector<ClusterJob> all() const;  // oldest first
  std::optional<ClusterJob> find(uint64_t id) const;

  // What another proxy tells. False if this one knows, or has said, something that counts more.
  bool note(ClusterJob job);

  // What follows is for the proxy that decides, since `term`.

  // A new one, without a report; or, if that was begun already, the one of the token. kConflict
  // while another one is running, naming it.
  Result<ClusterJob> begin(uint32_t term, uint64_t token, std::string kind, std::string order);
  void forget(uint64_t id);
  // It shall end, also one that was left: that is of `term` then. kNotFound; one that has ended is
  // left alone. kUnknownOutcome: it runs in a later term, at another proxy.
  Result<ClusterJob> cancel(uint64_t id, uint32_t term);
  // How far it is; nothing of a job that another one has gone on with.
  void tell(uint64_t id, uint32_t term, const JobProgress& progress, std::string report);

  // What is to become of jobs whose proxy is gone. One runs at a time, so the last one that was
  // heard of does, if any: the word of the end of all others was lost, and they must not undo what
  // came after them.
  struct Left {
    std::optional<ClusterJob> goes_on;  // anew, in `term`
    std::vector<ClusterJob> ended;      // were cancelled, or another one came after them
  };
  Left take_over(uint32_t term);

 private:
  ClusterJob* look_up(uint64_t id);
  void prune();

  mutable std::mutex mutex_;
  std::vector<ClusterJob> jobs_;  // by id; guarded by mutex_
  uint64_t last_id_ = 0;          // of any that was heard of; guarded by mutex_
  uint64_t cluster_id_ = 0;       // guarded by mutex_; 0: it is not known
};

}  // namespace elastripe::jobs
