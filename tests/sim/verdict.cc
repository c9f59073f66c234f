#include "tests/sim/verdict.h"

#include <algorithm>

#include "tests/sim/linearizability.h"

namespace elastripe::sim {

namespace {

// What all keys together are searched for one order, beside each by itself.
constexpr uint64_t kMostStepsTogether = 200'000;

// True if the bytes are not made of what clients wrote.
bool is_torn(const History& history, std::string bytes) {
  uint64_t number = 0;
  for (const Operation& op : history) {
    if (op.value.empty()) continue;
    if (const size_t at = bytes.find(op.value); at != std::string::npos) {
      bytes.erase(at, op.value.size());
    }
  }
  return !bytes.empty() && !parse_number(bytes, number);
}

void check_flushes(Run& run, const Clients& clients) {
  const History& history = clients.history();
  const Workload& workload = run.scenario.workload;
  if (workload.flushes == 0 || workload.keys > static_cast<int>(kMostKeysTogether)) return;
  std::vector<std::string> keys;
  for (int key = 0; key < workload.keys; ++key) keys.push_back(clients.key_name(key));
  const Check check = check_keys(history, keys, kMostStepsTogether);
  run.totals.undecided_flushes += check.verdict == Verdict::kUndecided;
  if (check.verdict != Verdict::kNotLinearizable) return;
  run.violation(Fault::kStale, fmt::format("no order of all keys explains: {}",
                                           to_string(history[check.stuck_at])));
}

}  // namespace

void check_histories(Run& run, const Clients& clients, const Promise& promise) {
  const History& history = clients.history();
  Totals& totals = run.totals;
  for (const Operation& op : history) {
    ++totals.operations;
    if (op.verb == Verb::kTransition) {
      totals.transitions += op.error == "transitioned";
      totals.refused_transitions += op.error.starts_with("refused");
    }
    if (is_unseen(op.verb)) continue;
    totals.flushes += op.verb == Verb::kFlush && op.answer != Answer::kNone;
    const bool read = op.verb == Verb::kGet;
    if (op.answer == Answer::kUnknown && !read) ++totals.unknowns;
    if (op.answer == Answer::kNone) ++totals.errors;
    if (op.answer == Answer::kDone && op.verb != Verb::kLose) ++totals.acknowledged_writes;
    if (op.error.starts_with("no_space")) ++totals.refused_for_memory;
    totals.streams += is_streamed(op);
    totals.cut_reads += op.answer == Answer::kCutOff;
    totals.cut_uploads += !read && op.error.starts_with("cancelled");
  }
  if (promise.may_lack_updates()) {
    ++totals.unchecked;
    return;
  }
  if (totals.ops.lost_updates > 0 && !run.scenario.expect.beyond_promise) {
    run.violation(Fault::kLost, "a proxy tells of lost updates");
  }
  for (int key = 0; key < run.scenario.workload.keys; ++key) {
    ++totals.histories;
    const Check check = check_key(history, clients.key_name(key));
    if (check.verdict == Verdict::kUndecided) {
      run.violation(Fault::kUndecided,
                    fmt::format("the search gave up on {}", clients.key_name(key)));
    } else if (check.verdict == Verdict::kNotLinearizable) {
      const Operation& stuck = history[check.stuck_at];
      Fault fault = stuck.client == kAuditor ? Fault::kLost : Fault::kStale;
      if (stuck.answer == Answer::kHit && is_torn(history, stuck.read_value)) fault = Fault::kTorn;
      // What the run itself noticed came of the same cause.
      if (run.fault != Fault::kStuck) run.fault = Fault::kNone;
      run.violation(fault, fmt::format("no order explains: {}", to_string(stuck)));
    }
    if (auto text = check_cas_uniques(history, clients.key_name(key)); !text.empty()) {
      run.violation(Fault::kVersions, text);
    }
  }
  if (run.is_ok()) check_flushes(run, clients);
}

}  // namespace elastripe::sim
