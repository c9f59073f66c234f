#include "proxy/ops/jobs/job.h"

#include <algorithm>

#include "proxy/async/when_all.h"
#include "proxy/base/bytes.h"
#include "proxy/cluster/record_chain.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/records/read_tail.h"

namespace elastripe::jobs {

namespace {

constexpr const char* kShuttingDown = "shutting down";

}  // namespace

JobCounts& JobCounts::operator+=(const JobCounts& other) {
  seen += other.seen;
  done += other.done;
  already_there += other.already_there;
  for (const auto& [reason, number] : other.skipped) skipped[reason] += number;
  no_object += other.no_object;
  overwritten += other.overwritten;
  refused += other.refused;
  failed += other.failed;
  return *this;
}

const char* state_name(const JobProgress& progress) {
  switch (progress.state) {
    case JobState::kRunning:
      return progress.cancelling ? "cancelling" : "running";
    case JobState::kDone:
      return "done";
    case JobState::kCancelled:
      return "cancelled";
    case JobState::kFailed:
      return "failed";
  }
  return "unknown";
}

Job::Job(OpsContext& ops, JobSpec spec)
    : ops_(ops),
      spec_(std::move(spec)),
      started_(ops.clock.now()),
      walk_(ops, spec_.prefix, spec_.page_bytes, *this),
      pace_(spec_.rate),
      room_(ops),
      slots_(std::max<uint32_t>(spec_.parallel, 1)) {}

void Job::set_pace(uint64_t rate, uint32_t parallel) {
  pace_.set_rate(ops_.clock.now(), rate);
  slots_.resize(std::max<uint32_t>(parallel, 1));
}

JobProgress Job::progress() const {
  JobProgress progress = progress_;
  for (const auto& [partition, met] : met_) progress.counts += met.passed;
  progress.partitions = walk_.partitions();
  progress.partitions_done = walk_.partitions_done();
  const bool running = progress.state == JobState::kRunning;
  progress.cancelling = running && cancelled_;
  progress.elapsed = (running ? ops_.clock.now() : ended_) - started_;
  return progress;
}

Task<void> Job::run() {
  auto [walked, begun] = co_await when_both(walk(), begin_waiting());
  const Result<void> whole = walked ? begun : walked;
  co_await objects_.join();
  ended_ = ops_.clock.now();
  progress_.reason = whole ? "" : whole.error().message;
  progress_.state = !whole       ? JobState::kFailed
                    : cancelled_ ? JobState::kCancelled
                                 : JobState::kDone;
}

Task<Result<void>> Job::walk() {
  auto walked = co_await (spec_.key.empty() ? walk_.run() : walk_key());
  if (!walked && walked.error().code == ErrorCode::kCancelled) gave_up_ = true;
  progress_.counted = walked && !ends();
  walks_ = false;
  came_.set();
  co_return walked;
}

// What the walk has met goes, also if it breaks off.
Task<Result<void>> Job::begin_waiting() {
  Result<void> turn;
  while (turn) {
    while (waiting_.empty() && walks_) co_await came_.wait();
    if (waiting_.empty() || ends()) break;
    auto slot = co_await slots_.acquire(1);
    turn = co_await wait_for_turn(waiting_.begin()->second.object.work.traffic.bytes());
    if (!turn || ends()) break;
    Waiting next = std::move(waiting_.extract(waiting_.begin()).mapped());
    next.place.release();
    objects_.spawn(run_one(std::move(next.object), std::move(slot)));
  }
  gave_up_ |= !turn;
  waiting_.clear();
  co_return turn;
}

// What is cached tells what to do as well as the tail does: the commit finds out whether it is old.
Task<Result<void>> Job::walk_key() {
  if (RecordPtr known = ops_.cache.find(spec_.key); known != nullptr && !spec_.dry_run) {
    const auto map = current_map(ops_);
    if (map && is_live_now(ops_, **map, *known)) {
      const auto need = need_of({**map, spec_.key, known->content});
      if (need && need->status == ObjectStatus::kDone) {
        co_return co_await take_in(*map, std::nullopt, spec_.key, std::move(known),
                                   /*may_be_old=*/true);
      }
    }
  }
  auto tail = co_await records::read_tail(ops_, spec_.key,
                                          ops_.clock.now() + ops_.settings.request_timeout);
  if (!tail) {
    if (tail.error().code == ErrorCode::kCancelled) co_return fail(tail.error());
    count_failed(progress_.counts, spec_.key, tail.error());
    co_return Result<void>{};
  }
  if (tail->record == nullptr || !is_live_now(ops_, *tail->map, *tail->record)) {
    ++progress_.counts.seen;
    ++progress_.counts.no_object;
    co_return Result<void>{};
  }
  co_return co_await take_in(tail->map, std::nullopt, spec_.key, tail->record);
}

void Job::partition_begins(size_t partition) {
  const auto met = met_.find(partition);
  if (met != met_.end()) met->second.passed = {};
}

void Job::partition_walked(size_t partition) {
  if (const auto met = met_.extract(partition)) progress_.counts += met.mapped().passed;
}

Task<Result<void>> Job::meet(MapPtr map, size_t partition, node::ScannedRecord scanned) {
  RecordPtr record;
  if (scanned.record.empty()) {  // it did not fit in the page
    auto tail = co_await records::read_tail(ops_, scanned.key,
                                            ops_.clock.now() + ops_.settings.request_timeout);
    if (!tail && tail.error().code == ErrorCode::kCancelled) co_return fail(tail.error());
    if (!tail) {
      count_failed(passed_in(partition), scanned.key, tail.error());
      co_return Result<void>{};
    }
    record = tail->record;
    map = tail->map;
  } else {
    auto decoded = node::decode_record(as_bytes(scanned.record));
    if (!decoded) {
      count_failed(passed_in(partition), scanned.key, {ErrorCode::kInvalid, decoded.error()});
      co_return Result<void>{};
    }
    record = std::make_shared<const node::Record>(std::move(*decoded));
  }
  if (record == nullptr || !is_live_now(ops_, *map, *record)) co_return Result<void>{};
  if (scanned.record.empty()) co_await look_at_one(map, scanned.key, record);
  co_return co_await take_in(std::move(map), partition, std::move(scanned.key), std::move(record));
}

// The record may be a while old by now, and only tells what to expect.
Task<Result<void>> Job::take_in(MapPtr map, std::optional<size_t> partition, std::string key,
                                RecordPtr record, bool may_be_old) {
  const uint64_t hash = node::hash_key(key);
  if (partition && met_[*partition].had_to_go.contains(hash)) co_return Result<void>{};
  auto need = need_of({*map, key, record->content});
  if (need && need->status != ObjectStatus::kDone) {
    count(partition ? passed_in(*partition) : progress_.counts,
          {.status = need->status, .reason = std::move(need->reason)}, {}, key);
    co_return Result<void>{};
  }
  if (partition) met_[*partition].had_to_go.insert(hash);
  walk_.got_on();
  if (!need) {
    count_failed(progress_.counts, key, need.error());
    co_return Result<void>{};
  }
  progress_.planned += need->work;
  if (spec_.dry_run) {
    ++progress_.counts.seen;
    co_return Result<void>{};
  }
  auto place = co_await places_.acquire(1);
  walk_.got_on();
  if (ends()) co_return Result<void>{};
  if (waiting_.size() >= kMaxRecordsWaiting) record.reset();
  waiting_.emplace(need->order, Waiting{{.key = std::move(key),
                                         .kind = need->kind,
                                         .work = need->work,
                                         .record = std::move(record),
                                         .may_be_old = may_be_old},
                                        std::move(place)});
  came_.set();
  co_return Result<void>{};
}

// While the proxy does not serve, nobody has a turn.
Task<Result<void>> Job::wait_for_turn(uint64_t bytes) {
  TimePoint served = std::max(ops_.clock.now(), pace_.next_turn());
  while (!ends()) {
    const TimePoint now = ops_.clock.now();
    const TimePoint turn = pace_.next_turn();  // it may be told another rate
    const auto map = current_map(ops_);
    if (map) served = std::max(now, turn);
    if (map && now >= turn && !room_.somebody_waits()) break;
    if (!room_.somebody_waits()) progress_.reason = map ? "" : map.error().message;
    if (now - served >= RecordWalk::kStalledAfter) co_return fail(map.error());
    if (!co_await ops_.clock.sleep_until(now < turn ? std::min(turn, now + RecordWalk::kPause)
                                                    : now + RecordWalk::kPause)) {
      co_return fail(ErrorCode::kCancelled, kShuttingDown);
    }
  }
  pace_.take_turn(ops_.clock.now(), bytes);
  progress_.reason.clear();
  co_return Result<void>{};
}

Task<void> Job::run_one(JobObject object, Semaphore::Permit slot) {
  const TimePoint begun = ops_.clock.now();
  const auto outcome = co_await run_when_there_is_room(object);
  progress_.done.traffic += object.spent;
  if (outcome && outcome->status == ObjectStatus::kDone) {
    progress_.object_times.add(ops_.clock.now() - begun);
  }
  progress_.settled_bytes += object.work.traffic.bytes();
  if (outcome) {
    count(progress_.counts, *outcome, object.work, object.key);
  } else {
    count_failed(progress_.counts, object.key, outcome.error());
  }
  ended(object, outcome);
  slot.release();
}

Task<Result<ObjectOutcome>> Job::run_when_there_is_room(JobObject& object) {
  RoomWait::Tries tries(room_);
  for (;;) {
    const uint64_t spent = object.spent.bytes();
    auto outcome = co_await flow(object);
    object.record.reset();
    tries.tried();
    if (outcome || outcome.error().code != ErrorCode::kNoSpace) co_return outcome;
    if (!tries.may_try_again(outcome.error().message) || cancelled_) co_return outcome;
    progress_.reason = outcome.error().message;
    pace_.take_turn(ops_.clock.now(), object.spent.bytes() - spent);
    if (!co_await tries.wait()) co_return fail(ErrorCode::kCancelled, kShuttingDown);
  }
}

// The counts of what needs nothing in a partition that is being walked; one more is to be added.
JobCounts& Job::passed_in(size_t partition) {
  Met& met = met_[partition];
  if (met.passed.seen + 1 > met.most_passed) {
    met.most_passed = met.passed.seen + 1;
    walk_.got_on();
  }
  return met.passed;
}

void Job::count(JobCounts& counts, const ObjectOutcome& outcome, const JobWork& work,
                const std::string& key) {
  ++counts.seen;
  switch (outcome.status) {
    case ObjectStatus::kDone:
      ++counts.done;
      progress_.done += {1, outcome.object_bytes, {}, work.parity, outcome.shards};
      break;
    case ObjectStatus::kAlreadyThere:
      ++counts.already_there;
      break;
    case ObjectStatus::kNoObject:
      ++counts.no_object;
      break;
    case ObjectStatus::kSkipped:
      ++counts.skipped[outcome.reason];
      break;
    case ObjectStatus::kOverwritten:
      ++counts.overwritten;
      break;
    case ObjectStatus::kRefused:
      ++counts.refused;
      add_problem(key, outcome.reason);
      break;
  }
}

void Job::count_failed(JobCounts& counts, const std::string& key, const Error& error) {
  ++counts.seen;
  ++counts.failed;
  add_problem(key, to_string(error));
}

void Job::add_problem(const std::string& key, std::string reason) {
  const bool is_known =
      std::ranges::find(progress_.problems, key, &JobProblem::key) != progress_.problems.end();
  if (!is_known && progress_.problems.size() < kMaxProblems) {
    progress_.problems.push_back({key, std::move(reason)});
  }
}

}  // namespace elastripe::jobs
