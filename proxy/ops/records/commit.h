// Commit: one change of a record, decided at the head and pushed down the chain (rules 5 and 6).
#pragma once

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/context.h"

namespace elastripe::records {

struct Commit {
  std::string_view key;  // outlives the commit
  node::Condition condition = node::Condition::kAlways;
  uint64_t condition_argument = 0;
  node::Mutation mutation = node::Mutation::kSet;
  // Where the transaction started from, known before its first shard write; a transaction without
  // shards has nothing that a fence could protect and uses kNoBase.
  uint64_t base_version = kNoBase;
  uint64_t delta = 0;
  uint32_t inline_max_bytes = 0;
  // With kIfVersion, of a change that is made of the value: cas_of() of it. 0: it is made of
  // nothing.
  uint64_t made_of_cas = 0;
  bool blind = false;  // an unconditional SET of a client: revives a key of a LOST partition
  uint64_t known_version =
      0;  // a version that the record is known to have had; 0: nothing is known
  node::RecordContent content;
  Buffer inline_value;     // of an inline SET; content.value is empty then
  node::Id128 attempt_id;  // set by commit(); never the data_txid (rule 6)

  static constexpr uint64_t kNoBase = UINT64_MAX;
};

enum class CommitStatus {
  kCommitted,
  kConditionFailed,
  kNotFound,  // the condition or mutation needs a live record
  kFenced,    // start again, with the base that the result tells
  kNotInline,
  kNotNumber,
  kTooLarge,
};

struct CommitResult {
  CommitStatus status = CommitStatus::kCommitted;
  // Committed: the record as committed, or, if the commit was found only after others had followed,
  // the newest one (`is_exact` false if its value may be another). Refused: what the refusal was
  // based on, null if none. Of an inline SET that committed at once it lacks the value.
  RecordPtr record;
  bool is_exact = true;
  // What the commit replaced, if that was striped and the head told: its shards are superseded.
  std::vector<node::Segment> superseded;
  coding::Scheme superseded_scheme;
  uint64_t floor = 0;
};

// Whether the key has enough homes for what its pool promises: acknowledged writes survive m
// crashes only if m+1 homes have the record. kTooFewNodes otherwise, unless the pool takes degraded
// writes, or `adds_nothing`: one home is enough for a DELETE, and for the fence of reclaim, which
// must go through where full nodes are why there are no more. (Neither can be undone by crashes,
// whatever has it: with its last home the whole partition is LOST.)
Result<void> check_homes(const OpsContext& ops, const node::ClusterMap& map, std::string_view key,
                         bool adds_nothing = false);

// The partition's floor has overtaken a record on its way down the chain, so the other homes refuse
// it (a dropped tombstone might have been newer). A fence gives it a version above the floor; if
// that does not reach the head, the next try does it again.
Task<void> lift_above_floor(OpsContext& ops, MapPtr map, std::string key, RecordPtr record,
                            TimePoint deadline);

// One attempt under `map`, with a new attempt_id. `map` and `commit` live until it has ended. A
// refusal is returned only once the record that it is based on has reached the tail. Errors:
//   kStaleEpoch, kUnavailable, kBusy, kNotSent (also if the deadline has come before the first
//   frame), and kTimeout or kDisconnected of a sync before the commit:
//     definitely not committed, and never will be; may be tried again
//   kUnknownOutcome: may or may not take effect, now or later
//   kTooFewNodes, kNoSpace, kLost, kInvalid, kCancelled before anything was sent, kTooLarge (the
//   content does not fit in a frame): definitely not committed
Task<Result<CommitResult>> commit(OpsContext& ops, const MapPtr& map, Commit& commit,
                                  TimePoint deadline);

// Commits without shards: tries under newer and newer maps until the deadline. `commit` lives until
// it has ended.
Task<Result<CommitResult>> commit_record(OpsContext& ops, Commit& commit, TimePoint deadline);

}  // namespace elastripe::records
