// MaintenanceThread: long work on stored objects (transitions, scrubs, automatic repair and
// scrubs), on a loop and channels of its own, so that neither heartbeats nor clients wait behind
// it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "proxy/admin/job_report.h"
#include "proxy/admin/ops_metrics.h"
#include "proxy/async/semaphore.h"
#include "proxy/base/published.h"
#include "proxy/main/flow_environment.h"
#include "proxy/ops/jobs/recycler.h"
#include "proxy/ops/jobs/repairer.h"
#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/jobs/scrubber.h"

namespace elastripe {

// One job that somebody asked for at a time, beside repair.
class MaintenanceThread : private Timer {
 public:
  // `on_repaired` is called on this thread when repair has restored something.
  MaintenanceThread(ProxyShared& shared, std::function<void()> on_repaired);
  ~MaintenanceThread() override;

  void start();
  // Any thread, while it runs: it follows the configuration from then on. `done` is called on it.
  void change_settings(ConfigPtr config, std::function<void()> done);
  void begin_shutdown();  // any thread; ends the waits of what is running as cancelled
  void join();

  // Any thread. `done` is called on this one, once, unless it fails at once: kUnavailable at
  // shutdown.
  Result<void> scrub(std::string key, std::function<void(Result<jobs::ScrubReport>)> done);

  // Any thread, until it is destroyed, as what follows. Begins the job, once the one before it has
  // ended here, and tells the book of all jobs how far it is. kInvalid: it makes no sense;
  // kUnavailable at shutdown, after which nobody is told that it has failed.
  Result<void> run_job(const jobs::ClusterJob& job);
  void cancel_job(uint64_t id);  // it ends; its report tells
  // Another proxy goes on with what is running here: it ends, and is not told of.
  void leave_jobs();
  // Any thread. A moment old.
  jobs::RepairStatus repair() const { return *repair_.load(); }
  // This proxy begins to decide: the next scrub is due in so long.
  void take_over(Duration scrub_due_in);
  jobs::ScrubStatus background_scrub() const { return *scrub_.load(); }

 private:
  void on_timer() override;  // publishes
  void publish_report();
  struct Running {
    uint32_t term = 0;
    JobReport report;
  };
  void tell(const Running& running);
  Task<void> run_scrub(std::string key, std::function<void(Result<jobs::ScrubReport>)> done);
  // One for each kind of job.
  std::unique_ptr<jobs::Job> make(jobs::TransitionJobSpec spec);
  std::unique_ptr<jobs::Job> make(jobs::RepairJobSpec spec);
  std::unique_ptr<jobs::Job> make(jobs::ScrubJobSpec spec);
  std::unique_ptr<jobs::Job> make(jobs::RebalanceJobSpec spec);
  std::unique_ptr<jobs::Job> make(jobs::RecycleJobSpec spec);
  Task<void> run(uint64_t id, uint32_t term);
  void count(const jobs::TransitionEnd& end);
  Task<void> finish();

  jobs::JobBook& book_;
  FlowEnvironment environment_;
  OpsMetrics ops_metrics_;
  const std::function<void()> on_repaired_;
  Counter& transition_bytes_;
  std::map<std::pair<std::string, std::string>, Counter*> transitions_;  // by direction, result
  Scope flows_;
  Scope ending_;
  Semaphore places_{1};
  std::unique_ptr<jobs::Job> job_;  // of the thread
  uint64_t job_id_ = 0;
  uint32_t job_term_ = 0;
  jobs::Repairer repairer_;
  jobs::Scrubber scrubber_;
  jobs::Recycler recycler_;
  std::thread thread_;

  Published<jobs::RepairStatus> repair_;
  Published<jobs::ScrubStatus> scrub_;
  std::mutex mutex_;
  std::map<uint64_t, Running> running_;  // or about to; guarded by mutex_, as what follows
  bool closed_ = false;
};

}  // namespace elastripe
