#include "proxy/main/maintenance_thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "proxy/base/log.h"
#include "proxy/ops/jobs/job_events.h"

namespace elastripe {
namespace {

constexpr FlowMemory kMemory{.staged = 64 << 20, .cache = 1 << 20};
constexpr int kNiceness = 10;
constexpr Duration kPublishEvery = std::chrono::milliseconds(200);

// direction: forward or backward; result: transitioned, overwritten (a write came first), refused
// (shards are missing) or failed
constexpr CounterRow kTransitions{"elastripe_transitions_total",
                                  "Objects that had to go to their other k, by their end.",
                                  {"direction", "result"}};
constexpr CounterRow kTransitionBytes{
    "elastripe_transition_bytes_total",
    "Bytes of blocks that transitions read from and sent to the nodes."};

const char* direction_name(coding::Direction direction) {
  return direction == coding::Direction::kForward ? "forward" : "backward";
}

}  // namespace

MaintenanceThread::MaintenanceThread(ProxyShared& shared, std::function<void()> on_repaired)
    : book_(shared.jobs),
      environment_(shared, kMemory),
      ops_metrics_(shared.registry),
      on_repaired_(std::move(on_repaired)),
      transition_bytes_(shared.registry.cell(kTransitionBytes)),
      repairer_(environment_.ops(), shared.config.repair, on_repaired_),
      scrubber_(environment_.ops(), shared.config.scrub),
      recycler_(environment_.ops(), shared.config.recycler, &shared.work),
      repair_(std::make_shared<const jobs::RepairStatus>()),
      scrub_(std::make_shared<const jobs::ScrubStatus>(scrubber_.status())) {
  for (const auto direction : {coding::Direction::kForward, coding::Direction::kBackward}) {
    for (const char* result : {"transitioned", "overwritten", "refused", "failed"}) {
      const char* name = direction_name(direction);
      transitions_[{name, result}] = &shared.registry.cell(kTransitions, {name, result});
    }
  }
  environment_.ops().settings.hedge_early = false;
  environment_.loop().arm(*this, environment_.loop().now());
}

MaintenanceThread::~MaintenanceThread() { cancel(); }

void MaintenanceThread::start() {
  flows_.spawn(repairer_.run());
  flows_.spawn(scrubber_.run());
  flows_.spawn(recycler_.run());
  thread_ = std::thread([this] {
    // Clients go first where processors are scarce. Linux: of this thread alone.
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness);
    environment_.loop().run();
  });
}

void MaintenanceThread::change_settings(ConfigPtr config, std::function<void()> done) {
  environment_.loop().post([this, config = std::move(config), done = std::move(done)] {
    environment_.change_settings(*config, kMemory);
    repairer_.change_settings(config->repair);
    scrubber_.change_settings(config->scrub);
    recycler_.change_settings(config->recycler);
    done();
  });
}

void MaintenanceThread::take_over(Duration scrub_due_in) {
  environment_.loop().post([this, scrub_due_in] { scrubber_.take_over(scrub_due_in); });
}

void MaintenanceThread::join() {
  if (thread_.joinable()) thread_.join();
}

void MaintenanceThread::begin_shutdown() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  environment_.loop().post([this] {
    environment_.cancel_all();
    ending_.spawn(finish());
  });
}

Task<void> MaintenanceThread::finish() {
  co_await flows_.join();
  co_await environment_.join_background();
  cancel();
  environment_.loop().stop();
}

Result<void> MaintenanceThread::scrub(std::string key,
                                      std::function<void(Result<jobs::ScrubReport>)> done) {
  const std::lock_guard lock(mutex_);
  if (closed_) return fail(ErrorCode::kUnavailable, "shutting down");
  // Before whatever begin_shutdown() posts, so it runs, and is joined.
  environment_.loop().post([this, key = std::move(key), done = std::move(done)] {
    if (!flows_.try_spawn(run_scrub(key, done))) {
      done(fail(ErrorCode::kUnavailable, "shutting down"));
    }
  });
  return {};
}

Task<void> MaintenanceThread::run_scrub(std::string key,
                                        std::function<void(Result<jobs::ScrubReport>)> done) {
  OpsContext& ops = environment_.ops();
  done(co_await jobs::scrub_object(ops, std::move(key),
                                   ops.clock.now() + ops.settings.request_timeout));
}

Result<void> MaintenanceThread::run_job(const jobs::ClusterJob& job) {
  const auto kind = std::ranges::find(job_kinds(), job.kind, &JobKind::name);
  if (kind == job_kinds().end()) {
    return fail(ErrorCode::kInvalid, "this proxy knows no job of the kind {}", job.kind);
  }
  auto asked = kind->parse(job.order, environment_.ops().map.current());
  if (!asked) return fail(asked.error());
  const std::lock_guard lock(mutex_);
  if (closed_) return fail(ErrorCode::kUnavailable, "shutting down");
  Running& running = running_[job.id];
  running = {
      .term = job.term,
      .report = {.id = job.id, .runs = job.runs, .asked = std::move(*asked), .progress = {}}};
  tell(running);
  environment_.loop().post([this, id = job.id, term = job.term] {
    // Refused at shutdown only: the report stays as it is for the moment that is left.
    (void)flows_.try_spawn(run(id, term));
  });
  return {};
}

void MaintenanceThread::tell(const Running& running) {
  const JobReport& report = running.report;
  book_.tell(report.id, running.term, report.progress, job_json(report));
}

void MaintenanceThread::cancel_job(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto running = running_.find(id);
  if (running == running_.end()) return;
  running->second.report.progress.cancelling = true;
  tell(running->second);
  environment_.loop().post([this, id] {
    if (job_ != nullptr && job_id_ == id) job_->cancel();
  });
}

void MaintenanceThread::leave_jobs() {
  const std::lock_guard lock(mutex_);
  running_.clear();
  environment_.loop().post([this] {
    if (job_ != nullptr) job_->cancel();
  });
}

std::unique_ptr<jobs::Job> MaintenanceThread::make(jobs::TransitionJobSpec spec) {
  return std::make_unique<jobs::TransitionJob>(
      environment_.ops(), std::move(spec), [this](const jobs::TransitionEnd& end) { count(end); });
}

std::unique_ptr<jobs::Job> MaintenanceThread::make(jobs::RepairJobSpec spec) {
  return std::make_unique<jobs::RepairJob>(environment_.ops(), std::move(spec));
}

std::unique_ptr<jobs::Job> MaintenanceThread::make(jobs::ScrubJobSpec spec) {
  return std::make_unique<jobs::ScrubJob>(environment_.ops(), std::move(spec));
}

std::unique_ptr<jobs::Job> MaintenanceThread::make(jobs::RebalanceJobSpec spec) {
  return std::make_unique<jobs::RebalanceJob>(environment_.ops(), std::move(spec));
}

std::unique_ptr<jobs::Job> MaintenanceThread::make(jobs::RecycleJobSpec spec) {
  return std::make_unique<jobs::RecycleJob>(environment_.ops(), std::move(spec));
}

Task<void> MaintenanceThread::run(uint64_t id, uint32_t term) {
  const Semaphore::Permit place = co_await places_.acquire(1);
  const auto still = [&] {
    const auto running = running_.find(id);
    return running != running_.end() && running->second.term == term ? &running->second : nullptr;
  };
  JobReport report;
  {
    const std::lock_guard lock(mutex_);
    const Running* const running = still();
    if (running == nullptr) co_return;
    report = running->report;
  }
  const jobs::LoggedJob logged{report.kind().name, id, common_spec(report.asked).dry_run};
  const auto map = [this] { return environment_.ops().map.current(); };
  job_ = std::visit([this](auto& spec) { return make(std::move(spec)); }, report.asked);
  job_id_ = id;
  job_term_ = term;
  if (report.progress.cancelling) job_->cancel();
  log_info("{}", started_line(logged, map(), report.runs));
  co_await job_->run();
  const jobs::JobProgress progress = job_->progress();
  {
    const std::lock_guard lock(mutex_);
    Running* const running = still();
    // Whoever decides next goes on with what only ends because this process does.
    const bool is_left =
        running == nullptr || (closed_ && progress.state == jobs::JobState::kFailed);
    log_info("{}", is_left ? left_line(logged, map()) : ended_line(logged, map(), progress));
    if (!is_left) {
      running->report.progress = progress;
      tell(*running);
    }
    if (running != nullptr) running_.erase(id);
  }
  if (progress.done.shards > 0) on_repaired_();
  job_.reset();
}

void MaintenanceThread::count(const jobs::TransitionEnd& end) {
  transitions_.at({direction_name(end.direction), end.result})->add();
  transition_bytes_.add(end.traffic.bytes());
}

void MaintenanceThread::on_timer() {
  ops_metrics_.publish(environment_.ops().counters);
  if (job_ != nullptr) publish_report();
  repair_.store(std::make_shared<const jobs::RepairStatus>(repairer_.status()));
  scrub_.store(std::make_shared<const jobs::ScrubStatus>(scrubber_.status()));
  environment_.loop().arm(*this, environment_.loop().now() + kPublishEvery);
}

void MaintenanceThread::publish_report() {
  Running now;
  {
    const std::lock_guard lock(mutex_);
    const auto running = running_.find(job_id_);
    if (running == running_.end() || running->second.term != job_term_) return;
    jobs::JobProgress& progress = running->second.report.progress;
    const bool cancelling = progress.cancelling;  // it may be on its way to the job
    progress = job_->progress();
    if (!progress.is_running()) return;  // run() tells of the end
    progress.cancelling = progress.cancelling || cancelling;
    now = running->second;
  }
  tell(now);
}

}  // namespace elastripe
