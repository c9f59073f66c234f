#include "proxy/ops/transition_job.h"

#include <algorithm>

#include "proxy/base/bytes.h"
#include "proxy/cluster/record_chain.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/read_tail.h"
#include "proxy/ops/record_scan.h"

namespace elastripe {

using coding::Direction;
using node::RecordContent;
using std::chrono::duration;
using std::chrono::duration_cast;

namespace {

constexpr Duration kStalledAfter = std::chrono::seconds(60);
constexpr Duration kPause = std::chrono::milliseconds(100);
// How much longer than the grace a node may stay full, and how often that is tried.
constexpr Duration kRoomAfterGrace = std::chrono::seconds(2);
constexpr Duration kRoomPause = std::chrono::seconds(1);
constexpr const char* kShuttingDown = "shutting down";

bool has_bit(const std::vector<uint8_t>& bits, size_t i) {
  return i / 8 < bits.size() && (bits[i / 8] >> (i % 8) & 1) != 0;
}

// What transition_object ended with, as a metric's label; null if nothing had to go after all.
const char* result_name(TransitionStatus status) {
  switch (status) {
    case TransitionStatus::kTransitioned:
      return "transitioned";
    case TransitionStatus::kOverwritten:
      return "overwritten";
    case TransitionStatus::kRefused:
      return "refused";
    default:
      return nullptr;
  }
}

}  // namespace

TransitionWork& TransitionWork::operator+=(const TransitionWork& other) {
  objects += other.objects;
  object_bytes += other.object_bytes;
  traffic += other.traffic;
  parity.before += other.parity.before;
  parity.after += other.parity.after;
  return *this;
}

TransitionCounts& TransitionCounts::operator+=(const TransitionCounts& other) {
  seen += other.seen;
  transitioned += other.transitioned;
  already_there += other.already_there;
  for (const auto& [reason, number] : other.skipped) skipped[reason] += number;
  no_object += other.no_object;
  overwritten += other.overwritten;
  refused += other.refused;
  failed += other.failed;
  return *this;
}

TransitionJob::TransitionJob(OpsContext& ops, TransitionJobSpec spec,
                             std::function<void(const TransitionEnd&)> on_end)
    : ops_(ops),
      spec_(std::move(spec)),
      on_end_(std::move(on_end)),
      started_(ops.clock.now()),
      slots_(std::max<uint32_t>(spec_.parallel, 1)) {}

TransitionProgress TransitionJob::progress() const {
  TransitionProgress progress = progress_;
  for (const auto& [partition, met] : met_) progress.counts += met.passed;
  const bool running = progress.state == TransitionJobState::kRunning;
  progress.cancelling = running && cancelled_;
  progress.elapsed = (running ? ops_.clock.now() : ended_) - started_;
  return progress;
}

TransitionRequest TransitionJob::request_for(std::string key) const {
  return {.key = std::move(key),
          .to = spec_.to,
          .execution = spec_.execution,
          .order_selection = spec_.order_selection};
}

Task<void> TransitionJob::run() {
  progress_.counting = true;
  auto walked = co_await walk();
  if (walked && !spec_.dry_run && !cancelled_) {
    progress_.counting = false;
    progress_.counts = {};
    progress_.problems.clear();
    walked = co_await walk();
  }
  co_await objects_.join();
  ended_ = ops_.clock.now();
  progress_.reason = walked ? "" : walked.error().message;
  progress_.state = !walked      ? TransitionJobState::kFailed
                    : cancelled_ ? TransitionJobState::kCancelled
                                 : TransitionJobState::kDone;
}

Task<Result<void>> TransitionJob::walk() { return spec_.key.empty() ? walk_all() : walk_key(); }

Task<Result<void>> TransitionJob::walk_key() {
  auto tail = co_await read_tail(ops_, spec_.key, ops_.clock.now() + ops_.settings.request_timeout);
  if (!tail) {
    if (tail.error().code == ErrorCode::kCancelled) co_return fail(tail.error());
    count_failed(progress_.counts, spec_.key, tail.error());
    co_return Result<void>{};
  }
  if (tail->record == nullptr || !is_live_now(ops_, *tail->record)) {
    ++progress_.counts.seen;
    ++progress_.counts.no_object;
    co_return Result<void>{};
  }
  co_return co_await meet(std::nullopt, spec_.key, tail->record);
}

Task<Result<void>> TransitionJob::walk_all() {
  progress_.partitions_done = 0;
  to_walk_.clear();
  got_on_ = ops_.clock.now();
  for (;;) {
    if (cancelled_) co_return Result<void>{};
    Error waits_for{ErrorCode::kUnavailable, "no home of a partition is up"};
    if (const auto map = current_map(ops_); !map) {
      waits_for = map.error();
    } else {
      const size_t partitions = (*map)->partitions.size();
      if (to_walk_.empty()) {
        to_walk_.assign(partitions, true);
        met_.clear();
        progress_.partitions = partitions;
      }
      for (auto& [tail, bits] : partitions_by_tail(**map, to_walk_)) {
        auto scanned = co_await scan_tail(*map, tail, std::move(bits));
        if (scanned) continue;
        waits_for = scanned.error();
        if (waits_for.code == ErrorCode::kCancelled) co_return fail(waits_for);
        if (waits_for.code == ErrorCode::kStaleEpoch) break;
      }
      if (progress_.partitions_done == partitions) {
        progress_.reason.clear();
        co_return Result<void>{};
      }
    }
    progress_.reason = waits_for.message;
    if (ops_.clock.now() - got_on_ >= kStalledAfter) {
      co_return fail(waits_for.code, "{} of {} partitions walked, then nothing got on for 60 s: {}",
                     progress_.partitions_done, progress_.partitions, waits_for.message);
    }
    if (!co_await ops_.clock.sleep_for(kPause))
      co_return fail(ErrorCode::kCancelled, kShuttingDown);
  }
}

Task<Result<void>> TransitionJob::scan_tail(MapPtr map, NodeId tail,
                                            std::vector<uint8_t> partitions) {
  node::RecordScanRequest message;
  message.max_bytes = spec_.page_bytes;
  message.without_values = true;
  message.prefix = spec_.prefix;
  message.partitions = partitions;
  std::vector<uint32_t> unsynced;
  for (auto& [partition, met] : met_) {
    if (has_bit(partitions, partition)) met.passed = {};
  }
  do {
    auto page = co_await scan_records(ops_, map, tail, message);
    if (!page) co_return fail(page.error());
    if (message.cursor == 0) unsynced = page->unsynced;
    for (node::ScannedRecord& scanned : page->records) {
      if (cancelled_) co_return Result<void>{};
      const size_t partition = map->partition_of(scanned.key);
      auto met = co_await meet_scanned(partition, std::move(scanned));
      if (!met) co_return met;
    }
    message.cursor = page->cursor;
  } while (message.cursor != 0 && !cancelled_);
  if (message.cursor == 0) mark_walked(partitions, unsynced);
  if (unsynced.empty()) co_return Result<void>{};
  co_return fail(ErrorCode::kUnavailable, "{} partitions are not synced yet", unsynced.size());
}

void TransitionJob::mark_walked(const std::vector<uint8_t>& partitions,
                                const std::vector<uint32_t>& unsynced) {
  for (size_t p = 0; p < to_walk_.size(); ++p) {
    if (!has_bit(partitions, p) || std::ranges::find(unsynced, p) != unsynced.end()) continue;
    to_walk_[p] = false;
    if (const auto met = met_.extract(p)) progress_.counts += met.mapped().passed;
    ++progress_.partitions_done;
    got_on_ = ops_.clock.now();
  }
}

Task<Result<void>> TransitionJob::meet_scanned(size_t partition, node::ScannedRecord scanned) {
  RecordPtr record;
  if (scanned.record.empty()) {  // it did not fit in the page
    auto tail =
        co_await read_tail(ops_, scanned.key, ops_.clock.now() + ops_.settings.request_timeout);
    if (!tail && tail.error().code == ErrorCode::kCancelled) co_return fail(tail.error());
    if (!tail) {
      count_failed(passed_in(partition), scanned.key, tail.error());
      co_return Result<void>{};
    }
    record = tail->record;
  } else {
    auto decoded = node::decode_record(as_bytes(scanned.record));
    if (!decoded) {
      count_failed(passed_in(partition), scanned.key, {ErrorCode::kInvalid, decoded.error()});
      co_return Result<void>{};
    }
    record = std::make_shared<const node::Record>(std::move(*decoded));
  }
  if (record == nullptr || !is_live_now(ops_, *record)) co_return Result<void>{};
  co_return co_await meet(partition, std::move(scanned.key), std::move(record));
}

Result<TransitionWork> TransitionJob::work_of(const RecordContent& content) const {
  const auto traffic = expected_traffic(content, request_for({}));
  if (!traffic) return fail(traffic.error());
  const auto parity = parity_bytes(content, spec_.to);
  if (!parity) return fail(parity.error());
  return TransitionWork{1, content.size, *traffic, *parity};
}

// The record may be a while old by now, and only tells what to expect.
Task<Result<void>> TransitionJob::meet(std::optional<size_t> partition, std::string key,
                                       RecordPtr record) {
  const uint64_t hash = node::hash_key(key);
  if (partition && met_[*partition].had_to_go.contains(hash)) co_return Result<void>{};
  const RecordContent& content = record->content;
  const TransitionNeed need = transition_need(content, spec_.to);
  if (need.status != TransitionStatus::kTransitioned) {
    TransitionOutcome outcome;
    outcome.status = need.status;
    outcome.reason = need.reason;
    count(partition ? passed_in(*partition) : progress_.counts, outcome, {}, key);
    co_return Result<void>{};
  }
  if (partition) met_[*partition].had_to_go.insert(hash);
  got_on_ = ops_.clock.now();
  const auto work = work_of(content);
  if (!work) {
    count_failed(progress_.counts, key, work.error());
  } else if (progress_.counting) {
    ++progress_.counts.seen;
    progress_.planned += *work;
  } else {
    auto slot = co_await slots_.acquire(1);
    auto turn = co_await wait_for_turn(work->traffic.bytes());
    if (!turn) co_return turn;
    if (cancelled_) co_return Result<void>{};
    objects_.spawn(transition(std::move(key), need.direction, *work, std::move(slot)));
  }
  co_return Result<void>{};
}

TimePoint TransitionJob::take_turn(uint64_t bytes) {
  const TimePoint turn = std::max(next_turn_, ops_.clock.now());
  if (spec_.rate > 0) {
    next_turn_ = turn + duration_cast<Duration>(duration<double>(static_cast<double>(bytes) /
                                                                 static_cast<double>(spec_.rate)));
  }
  return turn;
}

// Each turn begins when the turns before it would have ended at the full rate. While the proxy does
// not serve, nobody has a turn.
Task<Result<void>> TransitionJob::wait_for_turn(uint64_t bytes) {
  const TimePoint turn = take_turn(bytes);
  TimePoint served = turn;
  while (!cancelled_) {
    const TimePoint now = ops_.clock.now();
    const auto map = current_map(ops_);
    if (map) served = std::max(now, turn);
    if (map && now >= turn && waiting_for_room_ == 0) break;
    if (waiting_for_room_ == 0) progress_.reason = map ? "" : map.error().message;
    if (now - served >= kStalledAfter) co_return fail(map.error());
    if (!co_await ops_.clock.sleep_until(now < turn ? std::min(turn, now + kPause)
                                                    : now + kPause)) {
      co_return fail(ErrorCode::kCancelled, kShuttingDown);
    }
  }
  progress_.reason.clear();
  got_on_ = ops_.clock.now();
  co_return Result<void>{};
}

Task<void> TransitionJob::transition(std::string key, Direction direction, TransitionWork work,
                                     Semaphore::Permit slot) {
  const TimePoint begun = ops_.clock.now();
  TransitionTraffic spent;
  TransitionRequest request = request_for(key);
  request.spent = &spent;
  const auto outcome = co_await transition_when_there_is_room(std::move(request));
  progress_.done.traffic += spent;
  if (outcome && outcome->status == TransitionStatus::kTransitioned) {
    progress_.object_times.add(ops_.clock.now() - begun);
  }
  progress_.settled_bytes += work.traffic.bytes();
  if (outcome) {
    count(progress_.counts, *outcome, work, key);
  } else {
    count_failed(progress_.counts, key, outcome.error());
  }
  const char* result = outcome ? result_name(outcome->status) : "failed";
  if (on_end_ && result != nullptr) on_end_({direction, result, spent});
  slot.release();
}

// Old parities go after read_grace, and so does what clients overwrite: a full node may well have
// room then, and no object begins until it has. Where that was in vain once, objects fail at once.
Task<Result<TransitionOutcome>> TransitionJob::transition_when_there_is_room(
    TransitionRequest request) {
  std::optional<TimePoint> full_since;
  for (;;) {
    const uint64_t spent = request.spent->bytes();
    auto outcome = co_await transition_object(ops_, request);
    if (full_since) --waiting_for_room_;
    if (outcome || outcome.error().code != ErrorCode::kNoSpace) co_return outcome;
    const std::string& full = outcome.error().message;
    const TimePoint now = ops_.clock.now();
    if (!full_since) full_since = now;
    if (now - *full_since > ops_.settings.read_grace + kRoomAfterGrace) stays_full_.insert(full);
    if (cancelled_ || stays_full_.contains(full)) co_return outcome;
    progress_.reason = full;
    ++waiting_for_room_;
    take_turn(request.spent->bytes() - spent);
    if (!co_await ops_.clock.sleep_for(kRoomPause)) {
      --waiting_for_room_;
      co_return fail(ErrorCode::kCancelled, kShuttingDown);
    }
  }
}

// The counts of what needs nothing in a partition that is being walked; one more is to be added.
TransitionCounts& TransitionJob::passed_in(size_t partition) {
  Met& met = met_[partition];
  if (met.passed.seen + 1 > met.most_passed) {
    met.most_passed = met.passed.seen + 1;
    got_on_ = ops_.clock.now();
  }
  return met.passed;
}

void TransitionJob::count(TransitionCounts& counts, const TransitionOutcome& outcome,
                          const TransitionWork& work, const std::string& key) {
  ++counts.seen;
  switch (outcome.status) {
    case TransitionStatus::kTransitioned:
      ++counts.transitioned;
      progress_.done += {1, outcome.object_bytes, {}, work.parity};
      break;
    case TransitionStatus::kAlreadyThere:
      ++counts.already_there;
      break;
    case TransitionStatus::kNoObject:
      ++counts.no_object;
      break;
    case TransitionStatus::kSkipped:
      ++counts.skipped[outcome.reason];
      break;
    case TransitionStatus::kOverwritten:
      ++counts.overwritten;
      break;
    case TransitionStatus::kRefused:
      ++counts.refused;
      add_problem(key, outcome.reason);
      break;
  }
}

void TransitionJob::count_failed(TransitionCounts& counts, const std::string& key,
                                 const Error& error) {
  ++counts.seen;
  ++counts.failed;
  add_problem(key, to_string(error));
}

void TransitionJob::add_problem(const std::string& key, std::string reason) {
  const bool is_known = std::ranges::find(progress_.problems, key, &TransitionProblem::key) !=
                        progress_.problems.end();
  if (!is_known && progress_.problems.size() < kMaxProblems) {
    progress_.problems.push_back({key, std::move(reason)});
  }
}

}  // namespace elastripe
