// Job: does one thing with many objects: one object, all whose keys begin alike, or all. What it
// does is the flow of one object, and what says which objects have to go; walk, line, pace, room,
// progress, cancel and report are here.
//
// One walk of all records, tail by tail, adds up what has to go: that is all of a dry run.
// Otherwise what it meets waits in a line, from which a number of objects at a time go, no faster
// than told to. So the first ones go at once, and the walk is ahead of them by as much as the line
// takes: of few objects all are counted within moments, of many "at least so many" until the walk
// is over.
//
// Where a partition is walked again (RecordWalk), what was met before is passed over. Nothing is
// kept but in memory: a job that did not end is started anew, and finds what is done.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_set>

#include "proxy/async/signal.h"
#include "proxy/ops/jobs/job_progress.h"
#include "proxy/ops/jobs/pace.h"
#include "proxy/ops/jobs/record_walk.h"
#include "proxy/ops/jobs/room_wait.h"

namespace elastripe::jobs {

// An object as the walk, or a look at its record, has it.
struct MetObject {
  const node::ClusterMap& map;
  const std::string& key;
  const node::RecordContent& content;
};

// What is to be done with an object.
struct ObjectNeed {
  ObjectStatus status = ObjectStatus::kDone;  // kDone: it has to go
  std::string reason = {};
  int kind = 0;       // the job's own: which of the things it does
  int order = 0;      // of those that wait, the lowest goes first
  JobWork work = {};  // kDone: what it will put on the network, and change
};

struct ObjectOutcome {
  ObjectStatus status = ObjectStatus::kDone;
  std::string reason = {};
  uint64_t object_bytes = 0;
  uint64_t shards = 0;  // made again
};

// One object that has to go.
struct JobObject {
  std::string key;
  int kind = 0;             // as it was met: ObjectNeed's
  JobWork work;             // as it was met
  RecordPtr record;         // as it was met; null: to be read
  bool may_be_old = false;  // it was cached: the value may have been written anew before the job
  Traffic spent = {};       // of all tries; the flow adds to it
};

// On one thread, that of `ops`. Outlives its run().
class Job : private RecordWalk::Visitor {
 public:
  static constexpr size_t kMaxProblems = 20;
  // Objects that were met and wait: what bounds the memory of their names. Of the first in the line
  // the record is kept, too, so that it need not be read again.
  static constexpr size_t kMaxWaiting = 64 << 10;
  static constexpr size_t kMaxRecordsWaiting = 256;

  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Once. Fails when for 60 s it met nothing new and no partition could be walked to its end.
  Task<void> run();
  // No object begins any more; those that are running end.
  void cancel() { cancelled_ = true; }
  // For the objects that begin from now on; as in JobSpec.
  void set_pace(uint64_t rate, uint32_t parallel);
  JobProgress progress() const;

 protected:
  Job(OpsContext& ops, JobSpec spec);
  OpsContext& ops() { return ops_; }

 private:
  // What a job is made of. The first changes nothing: a dry run tells by it what would be done.
  // Errors: the object is counted as failed.
  virtual Result<ObjectNeed> need_of(const MetObject& object) = 0;
  // Before need_of() of an object whose record did not fit in its page: look_at() was not told of
  // it.
  virtual Task<void> look_at_one(MapPtr map, std::string key, RecordPtr record) {
    (void)map, (void)key, (void)record;
    co_return;
  }
  // The flow of one object. After kNoSpace it is called again, as long as room may come.
  virtual Task<Result<ObjectOutcome>> flow(JobObject& object) = 0;
  // For metrics.
  virtual void ended(const JobObject& object, const Result<ObjectOutcome>& outcome) {
    (void)object, (void)outcome;
  }

  struct Waiting {
    JobObject object;
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
  Task<Result<void>> take_in(MapPtr map, std::optional<size_t> partition, std::string key,
                             RecordPtr record, bool may_be_old = false);
  Task<Result<void>> wait_for_turn(uint64_t bytes);
  Task<void> run_one(JobObject object, Semaphore::Permit slot);
  Task<Result<ObjectOutcome>> run_when_there_is_room(JobObject& object);
  // Into `counts`: the job's, or those of a partition that is being walked.
  void count(JobCounts& counts, const ObjectOutcome& outcome, const JobWork& work,
             const std::string& key);
  void count_failed(JobCounts& counts, const std::string& key, const Error& error);
  void add_problem(const std::string& key, std::string reason);

  OpsContext& ops_;
  const JobSpec spec_;
  JobProgress progress_;
  bool cancelled_ = false;
  bool gave_up_ = false;
  TimePoint started_;
  TimePoint ended_;
  RecordWalk walk_;
  Pace pace_;
  RoomWait room_;
  // What is known of each partition until it is walked: hashes of the keys that had to go, and what
  // needed nothing. So memory is taken for objects that go, not for every key.
  struct Met {
    std::unordered_set<uint64_t> had_to_go;
    JobCounts passed;
    uint64_t most_passed = 0;  // in any walk
  };
  JobCounts& passed_in(size_t partition);
  std::map<size_t, Met> met_;
  Semaphore places_{kMaxWaiting};        // in the line
  std::multimap<int, Waiting> waiting_;  // by order
  bool walks_ = true;
  Signal came_;  // something waits, or the walk is over
  Semaphore slots_;
  Scope objects_;
};

}  // namespace elastripe::jobs
