// TRANSITION: an object changes between RS(k,m) and RS(k',m) in place, by two-phase commit, a
// window of segments at a time.
//
//   prepare  every parity node stages the next generation of its shards under a fresh parity_txid
//            (rule 26), out of its own and what the proxy sends; nothing refers to it yet
//   commit   one compare-and-set of the record flips state, generation and parity_txid of the
//            window's segments; data shards stay, and so does the cas
//   then     the old generation goes after the read grace; or the staged one, if the record
//            definitely never refers to it
//
// Readers go on: each uses the generation that its record names. A write that commits first wins.
#pragma once

#include <string>

#include "coding/transition_plan.h"
#include "proxy/ops/context.h"
#include "proxy/ops/jobs/job_work.h"

namespace elastripe::jobs {

enum class Execution : uint8_t {
  // Reads the non-overlapping blocks; sends deltas that parity nodes add to their own old parities.
  kDelta,
  // The paper's: reads old parities too, computes the new ones, uploads them.
  kProxy,
};

struct TransitionRequest {
  std::string key;
  int to = 0;  // the k to have: the scheme's k or its k'
  Execution execution = Execution::kDelta;
  bool order_selection = true;  // backward: ERS Algorithm 4's; off for comparison
  // The record of a while ago, or null: where it tells of work, the newest is not read first.
  RecordPtr known = {};
  // `known` may be older than what asks for the transition: a value that replaced it goes as well.
  bool known_may_be_old = false;
  // Added to as each try ends, so that it tells of errors, too; outlives the flow.
  Traffic* spent = nullptr;
};

struct TransitionOutcome {
  ObjectStatus status = ObjectStatus::kDone;
  coding::Direction direction = coding::Direction::kForward;
  std::string reason;
  uint64_t object_bytes = 0;
  Traffic traffic;  // of all tries
};

// Which way a record's content has to go, and in how many segments; the status and reason if it has
// not. What nothing but the record decides, so that a dry run tells the same.
struct TransitionNeed {
  ObjectStatus status = ObjectStatus::kDone;  // kDone: it has to go
  coding::Direction direction = coding::Direction::kForward;
  std::string reason;
};
TransitionNeed transition_need(const node::RecordContent& content, int to);
// Whether an old record is enough to begin with: only the newest tells that there is nothing to do.
inline bool tells_of_work(const node::RecordContent& content, int to) {
  return transition_need(content, to).status == ObjectStatus::kDone;
}

// What the segments of `content` that are not there yet will put on the network.
Result<Traffic> expected_traffic(const node::RecordContent& content,
                                 const TransitionRequest& request);

// What parity shards `content` has in its present state, and in state `to`.
Result<ParityBytes> parity_bytes(const node::RecordContent& content, int to);

// Tries under newer and newer maps, for as long as request_timeout brings no window to its commit.
// Errors: kUnknownOutcome: the last window may or may not be in the new state; whatever happens,
// the object reads back, and a transition can be started again. Others: the windows before are
// done, the last one is not.
Task<Result<TransitionOutcome>> transition_object(OpsContext& ops, TransitionRequest request);

}  // namespace elastripe::jobs
