// JobKeeper: the cluster's jobs, as the proxy that decides begins, cancels and takes over them, and
// as the others ask for that (docs/decider.md). It keeps the order in which this happens; a runner
// does the work.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "proxy/ops/decider/correspondence.h"

namespace elastripe::decider {

// Runs jobs while this proxy decides, and tells the book of them how far they are.
struct JobRunner {
  // Begins it, or goes on with it. kInvalid: it makes no sense here.
  std::function<Result<void>(const jobs::ClusterJob&)> run;
  std::function<void(uint64_t id)> cancel;
  std::function<void()> leave;  // another proxy goes on with what runs
  // The report of a job that has ended without being run any more, out of its last one.
  std::function<std::string(const std::string& report, const jobs::JobProgress& end)> ended_report;
};

// On the thread of `ops`. Outlives its run().
class JobKeeper {
 public:
  // The proxy that it is of.
  struct Proxy {
    Correspondence::DecidesAs decides_as;
    // That of its decider (decider.h).
    std::function<bool(TimePoint)> has_majority_since;
    std::function<bool()> ends;  // it is about to, and takes over nothing any more
  };
  JobKeeper(OpsContext& ops, jobs::JobBook& book, Correspondence& letters, Proxy proxy);
  void have_run(JobRunner runner);  // before all else

  // Goes on with what others have left, whenever this proxy decides; until cancelled.
  Task<void> run();
  // This proxy does not decide any more.
  void leave();

  // A task of jobs: this proxy does it, or the one does that decides. Whoever decides next is asked
  // again, by the same token. Errors: those of Correspondence::do_task(), and what follows; all but
  // kUnknownOutcome: nobody has begun it.
  Task<DeciderAnswer> ask(DeciderTask task, TimePoint deadline);

  // What this proxy is asked for, as it decides. They end when others can learn of it.
  // kUnavailable: it has just begun to decide; kUnknownOutcome: others can not be told; kInvalid,
  // kConflict and kNotFound are of JobBook and of the runner.
  Task<DeciderAnswer> start(StartJob order, TimePoint deadline);
  Task<DeciderAnswer> cancel(CancelJob order, TimePoint deadline);

 private:
  // That of the decider that this proxy is, once it serves.
  struct Tenure {
    uint32_t decider = 0;
    uint32_t term = 0;
    TimePoint since;
  };
  const Tenure* tenure();
  Task<Result<uint32_t>> wait_for_term(TimePoint deadline);
  Task<DeciderAnswer> tell(uint64_t id, TimePoint deadline);
  bool is_too_early(const Tenure& tenure) const;
  void take_over(const Tenure& tenure);
  void end(const jobs::ClusterJob& job, uint32_t term, jobs::JobState state, std::string reason);

  OpsContext& ops_;
  jobs::JobBook& book_;
  Correspondence& letters_;
  const Proxy proxy_;
  JobRunner runner_;
  std::optional<Tenure> tenure_;
};

}  // namespace elastripe::decider
