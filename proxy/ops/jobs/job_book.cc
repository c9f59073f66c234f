#include "proxy/ops/jobs/job_book.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "server-patches/node/format/mutant.h"

namespace elastripe::jobs {

namespace {

// What is said from now on, or answered of an end, counts more than what a proxy may say that
// decided in between, and was not heard.
void adopt(ClusterJob& job, uint32_t term) {
  if (job.term >= term) return;
  job.term = term;
  job.version = 0;
}

}  // namespace

void JobBook::belong_to(uint64_t cluster_id) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(cluster_id_, cluster_id) == cluster_id) return;
  jobs_.clear();
  last_id_ = 0;
}

std::vector<ClusterJob> JobBook::all() const {
  const std::lock_guard lock(mutex_);
  return jobs_;
}

std::optional<ClusterJob> JobBook::find(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(jobs_, id, &ClusterJob::id);
  return found == jobs_.end() ? std::nullopt : std::optional(*found);
}

ClusterJob* JobBook::look_up(uint64_t id) {
  const auto found = std::ranges::find(jobs_, id, &ClusterJob::id);
  return found == jobs_.end() ? nullptr : &*found;
}

// Those that have ended go first.
void JobBook::prune() {
  while (jobs_.size() > kRemembered) {
    const auto ended = std::ranges::find_if_not(jobs_, &ClusterJob::is_running);
    jobs_.erase(ended == jobs_.end() ? jobs_.begin() : ended);
  }
}

bool JobBook::note(ClusterJob job) {
  const auto order = [](const ClusterJob& of) { return std::tuple(of.term, of.version); };
  const std::lock_guard lock(mutex_);
  // Two proxies that decide in the same moment may each have begun it. Nobody was told of what the
  // earlier one has begun: whoever decides later would know.
  const auto same = std::ranges::find(jobs_, job.token, &ClusterJob::token);
  if (same != jobs_.end() && same->id != job.id) {
    if (same->term >= job.term) return false;
    jobs_.erase(same);
  }
  ClusterJob* const known = look_up(job.id);
  if (known != nullptr) {
    if (order(job) <= order(*known)) return order(job) == order(*known);
    // The word of its proxy may be from before it was cancelled.
    job.cancelling |= known->cancelling && known->token == job.token && job.is_running();
    *known = std::move(job);
    return true;
  }
  // One that this proxy has left out already: a node where proxies do not meet any more tells of
  // it.
  if (jobs_.size() >= kRemembered && job.id < jobs_.front().id) return false;
  last_id_ = std::max(last_id_, job.id);
  jobs_.insert(std::ranges::upper_bound(jobs_, job.id, {}, &ClusterJob::id), std::move(job));
  prune();
  return true;
}

Result<ClusterJob> JobBook::begin(uint32_t term, uint64_t token, std::string kind,
                                  std::string order) {
  const std::lock_guard lock(mutex_);
  const auto same = std::ranges::find(jobs_, token, &ClusterJob::token);
  if (same != jobs_.end() && !mutant(Mutant::kBeginTwice)) {
    if (!same->is_running()) adopt(*same, term);
    return *same;
  }
  const auto running = std::ranges::find_if(jobs_, &ClusterJob::is_running);
  if (running != jobs_.end()) {
    return fail(ErrorCode::kConflict, "{} {} is running: one at a time", running->kind,
                running->id);
  }
  jobs_.push_back({.id = ++last_id_,
                   .token = token,
                   .kind = std::move(kind),
                   .order = std::move(order),
                   .term = term,
                   .runs = 1,
                   .report = {}});
  prune();
  return jobs_.back();
}

void JobBook::forget(uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const ClusterJob& job) { return job.id == id; });
}

Result<ClusterJob> JobBook::cancel(uint64_t id, uint32_t term) {
  const std::lock_guard lock(mutex_);
  ClusterJob* const job = look_up(id);
  if (job == nullptr) return fail(ErrorCode::kNotFound, "there is no job {}", id);
  if (job->is_running() && job->term > term) {
    return fail(ErrorCode::kUnknownOutcome, "another proxy runs it");
  }
  adopt(*job, term);
  if (job->is_running() && !std::exchange(job->cancelling, true)) ++job->version;
  return *job;
}

void JobBook::tell(uint64_t id, uint32_t term, const JobProgress& progress, std::string report) {
  const std::lock_guard lock(mutex_);
  ClusterJob* const job = look_up(id);
  if (job == nullptr || job->term != term || !job->is_running()) return;
  if (job->report == report && progress.is_running()) return;
  ++job->version;
  job->state = progress.state;
  job->report = std::move(report);
}

JobBook::Left JobBook::take_over(uint32_t term) {
  const std::lock_guard lock(mutex_);
  const auto is_after = [](const ClusterJob& other, const ClusterJob& job) {
    if (other.is_running()) return std::tuple(other.term, other.id) > std::tuple(job.term, job.id);
    // An older one may have a later term since its end was answered.
    return other.term > job.term && other.id > job.id;
  };
  Left left;
  const std::vector<ClusterJob> before = jobs_;
  for (ClusterJob& job : jobs_) {
    if (!job.is_running() || job.term >= term) continue;
    const bool is_last =
        std::ranges::none_of(before, [&](const ClusterJob& other) { return is_after(other, job); });
    const bool goes_on = is_last && (!job.cancelling || mutant(Mutant::kUncancel));
    adopt(job, term);
    if (goes_on) {
      ++job.runs;
      left.goes_on = job;
    } else {
      left.ended.push_back(job);
    }
  }
  return left;
}

}  // namespace elastripe::jobs
