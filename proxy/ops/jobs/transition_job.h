// A job that takes objects to another k: one object, all whose keys begin alike, or all.
//
// One walk of all records, tail by tail, adds up what has to go: that is all of a dry run.
// Otherwise what it meets waits in a line, from which a number of objects at a time are
// transitioned, no faster than told to. So the first ones go at once, and the walk is ahead of them
// by as much as the line takes: of few objects all are counted within moments, of many "at least so
// many" until the walk is over.
//
// Where a partition is walked again (RecordWalk), what was met before is passed over. Nothing is
// kept but in memory: a job that did not end is started anew, and finds what is done.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "proxy/async/signal.h"
#include "proxy/ops/jobs/duration_summary.h"
#include "proxy/ops/jobs/pace.h"
#include "proxy/ops/jobs/record_walk.h"
#include "proxy/ops/jobs/room_wait.h"
#include "proxy/ops/jobs/transition.h"

namespace elastripe::jobs {

struct TransitionJobSpec {
  std::string key = {};     // of the one object; empty: many
  std::string prefix = {};  // of the keys of many; empty: all
  int to = 0;               // as in TransitionRequest
  Execution execution = Execution::kDelta;
  bool order_selection = true;
  bool dry_run = false;   // counts only, touches nothing
  uint64_t rate = 0;      // bytes a second on the network, on average; 0: no limit
  uint32_t parallel = 4;  // objects at a time, at least 1
  // Records in one answer to a scan; those that do not fit are named, and read one by one.
  uint32_t page_bytes = 256 << 10;
};

enum class TransitionJobState : uint8_t {
  kRunning,
  kDone,       // every object was met; the counts tell how it went with them
  kCancelled,  // by cancel()
  kFailed,     // `reason` tells why; what was done stays done
};

// Objects that have to go, or went.
struct TransitionWork {
  uint64_t objects = 0;
  uint64_t object_bytes = 0;
  TransitionTraffic traffic;
  ParityBytes parity;  // what their parity shards take before and after

  TransitionWork& operator+=(const TransitionWork& other);
};

// Every object is counted once: `seen` is the sum of the rest (and, of a dry run, of what is
// planned). A partition that is walked again takes back what needed nothing in it.
struct TransitionCounts {
  uint64_t seen = 0;
  uint64_t transitioned = 0;
  uint64_t already_there = 0;
  std::map<std::string, uint64_t> skipped;  // by reason: TransitionOutcome's
  uint64_t no_object = 0;                   // of the key; or deleted before its turn came
  uint64_t overwritten = 0;
  uint64_t refused = 0;  // shards are missing
  uint64_t failed = 0;   // errors, unknown outcomes among them

  TransitionCounts& operator+=(const TransitionCounts& other);
};

struct TransitionProblem {
  std::string key;
  std::string reason;
};

struct TransitionProgress {
  TransitionJobState state = TransitionJobState::kRunning;
  bool counted = false;     // the walk is over: `planned` is all of it
  bool cancelling = false;  // what is running still ends
  std::string reason;       // kFailed: why; kRunning: what it waits for, if anything
  TransitionCounts counts;
  TransitionWork planned;      // as far as it is counted
  TransitionWork done;         // transitioned; traffic is of all tries of all objects
  uint64_t settled_bytes = 0;  // of planned.traffic: of objects whose turn is over
  uint64_t partitions = 0;     // to walk
  uint64_t partitions_done = 0;
  Duration elapsed{};
  DurationSummary object_times;  // of those transitioned, each from its start to its commit
  std::vector<TransitionProblem> problems;  // the first kMaxProblems: refused or failed
};

// How an object ended that had to go, for metrics.
struct TransitionEnd {
  coding::Direction direction = coding::Direction::kForward;
  const char* result = "";  // transitioned, overwritten, refused or failed
  TransitionTraffic traffic;
};

// On one thread, that of `ops`. Outlives its run().
class TransitionJob final : private RecordWalk::Visitor {
 public:
  static constexpr size_t kMaxProblems = 20;
  // Objects that were met and wait: what bounds the memory of their names. Of the first in the line
  // the record is kept, too, so that it need not be read again.
  static constexpr size_t kMaxWaiting = 64 << 10;
  static constexpr size_t kMaxRecordsWaiting = 256;

  TransitionJob(OpsContext& ops, TransitionJobSpec spec,
                std::function<void(const TransitionEnd&)> on_end = {});

  // Once. Fails when for 60 s it met nothing new and no partition could be walked to its end.
  Task<void> run();
  // No object begins any more; those that are running end.
  void cancel() { cancelled_ = true; }
  const TransitionJobSpec& spec() const { return spec_; }
  TransitionProgress progress() const;

 private:
  struct Waiting {
    std::string key;
    coding::Direction direction = coding::Direction::kForward;
    TransitionWork work;
    RecordPtr record;  // as it was met; null: to be read
    bool may_be_old;   // it was cached: the value may have been written anew before the job
    Semaphore::Permit place;
  };

  Task<Result<void>> walk();
  Task<Result<void>> begin_waiting();
  bool ends() const { return cancelled_ || gave_up_; }  // nothing begins any more
  Task<Result<void>> walk_key();
  Task<Result<void>> meet(MapPtr map, size_t partition, node::ScannedRecord scanned) override;
  void partition_begins(size_t partition) override;
  void partition_walked(size_t partition) override;
  void walk_waits(std::string reason) override { progress_.reason = std::move(reason); }
  bool wants_more() const override { return !ends(); }
  // Counts an object, and has it wait for its turn if it has to go. Without a partition it is the
  // one key.
  Task<Result<void>> take_in(std::optional<size_t> partition, std::string key, RecordPtr record,
                             bool may_be_old = false);
  Task<Result<void>> wait_for_turn(uint64_t bytes);
  Task<void> transition(Waiting object, Semaphore::Permit slot);
  Task<Result<TransitionOutcome>> transition_when_there_is_room(TransitionRequest request);
  Result<TransitionWork> work_of(const node::RecordContent& content) const;
  // Into `counts`: the job's, or those of a partition that is being walked.
  void count(TransitionCounts& counts, const TransitionOutcome& outcome, const TransitionWork& work,
             const std::string& key);
  void count_failed(TransitionCounts& counts, const std::string& key, const Error& error);
  void add_problem(const std::string& key, std::string reason);
  TransitionRequest request_for(std::string key, RecordPtr known = nullptr) const;

  OpsContext& ops_;
  const TransitionJobSpec spec_;
  const std::function<void(const TransitionEnd&)> on_end_;
  TransitionProgress progress_;
  bool cancelled_ = false;
  bool gave_up_ = false;
  TimePoint started_;
  TimePoint ended_;
  RecordWalk walk_;
  Pace pace_;
  RoomWait room_;
  // What is known of each partition until it is walked: hashes of the keys that had to go, and what
  // needed nothing. So memory is taken for objects that transition, not for every key.
  struct Met {
    std::unordered_set<uint64_t> had_to_go;
    TransitionCounts passed;
    uint64_t most_passed = 0;  // in any walk
  };
  TransitionCounts& passed_in(size_t partition);
  std::map<size_t, Met> met_;
  Semaphore places_{kMaxWaiting};  // in the line
  std::deque<Waiting> waiting_;
  bool walks_ = true;
  Signal came_;  // something waits, or the walk is over
  Semaphore slots_;
  Scope objects_;
};

}  // namespace elastripe::jobs
