#include "proxy/ops/decider/job_keeper.h"

#include <algorithm>

#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

namespace {

constexpr Duration kLookPeriod = std::chrono::milliseconds(20);   // whether it was told
constexpr Duration kLeftPeriod = std::chrono::milliseconds(500);  // whether any were left

}  // namespace

JobKeeper::JobKeeper(OpsContext& ops, jobs::JobBook& book, Correspondence& letters, Proxy proxy)
    : ops_(ops), book_(book), letters_(letters), proxy_(std::move(proxy)) {}

void JobKeeper::have_run(JobRunner runner) { runner_ = std::move(runner); }

void JobKeeper::leave() { runner_.leave(); }

const JobKeeper::Tenure* JobKeeper::tenure() {
  const MapPtr map = ops_.map.current();
  const uint32_t decider = proxy_.decides_as();
  if (decider == 0 || map == nullptr || map->epoch.decider != decider) return nullptr;
  if (!tenure_ || tenure_->decider != decider) {
    tenure_ = {.decider = decider, .term = map->epoch.number, .since = ops_.clock.now()};
  }
  return &*tenure_;
}

// What was asked for before has to be known: there is one job at a time, and each has an id.
Task<Result<uint32_t>> JobKeeper::wait_for_term(TimePoint deadline) {
  do {
    const Tenure* const tenure = this->tenure();
    if (tenure == nullptr || !letters_.hear_all(tenure->since)) continue;
    take_over(*tenure);
    co_return tenure->term;
  } while (ops_.clock.now() < deadline && co_await ops_.clock.sleep_for(kLookPeriod));
  co_return fail(ErrorCode::kUnavailable, "this proxy has just begun to decide; try again");
}

Task<DeciderAnswer> JobKeeper::start(StartJob order, TimePoint deadline) {
  const auto term = co_await wait_for_term(deadline);
  if (!term) co_return fail(term.error());
  auto job = book_.begin(*term, order.token, std::move(order.kind), std::move(order.order));
  if (!job) co_return fail(job.error());
  // It was left by another proxy. Nobody knows yet whether this one goes on with it.
  if (job->is_running() && job->term != *term) {
    co_return fail(ErrorCode::kUnknownOutcome, "another proxy has begun it");
  }
  const bool is_new = job->report.empty();
  if (auto run = is_new ? runner_.run(*job) : Result<void>(); !run) {
    book_.forget(job->id);
    co_return fail(run.error());
  }
  co_return co_await tell(job->id, deadline);
}

Task<DeciderAnswer> JobKeeper::cancel(CancelJob order, TimePoint deadline) {
  const auto term = co_await wait_for_term(deadline);
  if (!term) co_return fail(term.error());
  const auto before = book_.find(order.id);
  if (before && !order.kind.empty() && before->kind != order.kind) {
    co_return fail(ErrorCode::kNotFound, "job {} is no {}", order.id, order.kind);
  }
  auto cancelled = book_.cancel(order.id, *term);
  if (!cancelled) co_return fail(cancelled.error());
  if (before && before->is_running() && before->term != *term) {
    // It is too early to go on with it, and so nobody runs it.
    end(*cancelled, *term, jobs::JobState::kCancelled, {});
  } else {
    runner_.cancel(order.id);
  }
  co_return co_await tell(order.id, deadline);
}

// What is answered has to outlive this proxy. What was told once is; news of the job would begin
// that anew again and again.
Task<DeciderAnswer> JobKeeper::tell(uint64_t id, TimePoint deadline) {
  auto job = book_.find(id);
  std::optional<TimePoint> told;
  const uint32_t decides = proxy_.decides_as();
  while (job && decides != 0 && proxy_.decides_as() == decides) {
    if (!told) told = letters_.told_at(*job);
    if ((told && proxy_.has_majority_since(*told)) || mutant(Mutant::kAnswerUntold)) {
      const bool has_ended = !job->is_running();
      auto now = book_.find(id);
      if (!now || now->token != job->token) break;
      job = std::move(now);
      if (job->is_running() || has_ended) co_return TaskOutcome{.job = job};
      // It has ended meanwhile, and would end otherwise at whoever has not heard of that.
      told.reset();
      continue;
    }
    if (ops_.clock.now() >= deadline || !co_await ops_.clock.sleep_for(kLookPeriod)) break;
  }
  co_return fail(ErrorCode::kUnknownOutcome, "other proxies could not be told of it");
}

// What was moved counts twice where it was, until readers are done with it: who balances anew
// before would move too much.
bool JobKeeper::is_too_early(const Tenure& tenure) const {
  if (ops_.clock.now() >= tenure.since + ops_.settings.read_grace) return false;
  return std::ranges::any_of(book_.all(), [&](const jobs::ClusterJob& job) {
    return job.is_running() && job.term < tenure.term && job.kind == "rebalance";
  });
}

void JobKeeper::end(const jobs::ClusterJob& job, uint32_t term, jobs::JobState state,
                    std::string reason) {
  jobs::JobProgress progress;
  progress.state = state;
  progress.reason = std::move(reason);
  book_.tell(job.id, term, progress, runner_.ended_report(job.report, progress));
}

void JobKeeper::take_over(const Tenure& tenure) {
  if (proxy_.ends() || is_too_early(tenure) || mutant(Mutant::kLeaveJobs)) return;
  const jobs::JobBook::Left left = book_.take_over(tenure.term);
  for (const jobs::ClusterJob& job : left.ended) {
    if (job.cancelling) {
      end(job, tenure.term, jobs::JobState::kCancelled, {});
    } else {
      end(job, tenure.term, jobs::JobState::kFailed,
          "its proxy has ended, and another job came after it");
    }
  }
  if (!left.goes_on) return;
  const auto run = runner_.run(*left.goes_on);
  if (!run && run.error().code == ErrorCode::kInvalid) {
    end(*left.goes_on, tenure.term, jobs::JobState::kFailed, run.error().message);
  }
}

Task<void> JobKeeper::run() {
  while (co_await ops_.clock.sleep_for(kLeftPeriod)) {
    const Tenure* const tenure = this->tenure();
    if (tenure != nullptr && letters_.hear_all(tenure->since)) take_over(*tenure);
  }
}

Task<DeciderAnswer> JobKeeper::ask(DeciderTask task, TimePoint deadline) {
  const auto is_unknown = [](const DeciderAnswer& answer) {
    return !answer && answer.error().code == ErrorCode::kUnknownOutcome;
  };
  DeciderAnswer answer = co_await letters_.do_task(task, deadline);
  while (is_unknown(answer) && ops_.clock.now() < deadline &&
         co_await ops_.clock.sleep_for(kLookPeriod)) {
    DeciderAnswer again = co_await letters_.do_task(task, deadline);
    // Whoever was asked before may have done it all the same.
    if (!again && !is_unknown(again) && !mutant(Mutant::kRefuseMaybeDone)) {
      co_return fail(ErrorCode::kUnknownOutcome, "{}; when it was asked for again: {}",
                     answer.error().message, again.error().message);
    }
    answer = std::move(again);
  }
  co_return answer;
}

}  // namespace elastripe::decider
