#include <algorithm>
#include <memory>
#include <set>

#include "tests/sim/phases.h"

using namespace elastripe::objects;

namespace elastripe::sim {

namespace {

// The keys whose records are gone.
std::set<int> find_lost_keys(Parts& parts, SimProxy& proxy) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  std::set<int> lost;
  const node::MapPtr map = proxy.map().current();
  for (int key = 0; key < run.scenario.workload.keys && run.is_ok(); ++key) {
    const auto report = audit.inspect(key, proxy);
    if (report) continue;
    const bool is_lost = map->partitions[map->partition_of(clients.key_name(key))].lost;
    if (!is_lost || report.error().code != ErrorCode::kLost) {
      run.violation(Fault::kLost,
                    fmt::format("{} is in a {} partition: {}", clients.key_name(key),
                                is_lost ? "LOST" : "whole", to_string(report.error())));
    }
    lost.insert(key);
  }
  return lost;
}

// A blind SET of unknown outcome may have revived the key, at its head only: then reads say that it
// is lost, and what the head decides takes effect.
bool may_be_revived(Parts& parts, int key) {
  return std::ranges::any_of(parts.clients.history(), [&](const Operation& op) {
    return op.verb == Verb::kSet && op.key == parts.clients.key_name(key) &&
           op.answer == Answer::kUnknown;
  });
}

// Whatever depends on what a lost key was is an error that says so.
void check_refusals(Parts& parts, int key, SimProxy& proxy) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  for (const Verb verb : {Verb::kGet, Verb::kAdd, Verb::kReplace, Verb::kAppend, Verb::kPrepend,
                          Verb::kIncrement, Verb::kDecrement, Verb::kDelete, Verb::kTouch}) {
    Operation op;
    op.verb = verb;
    op.key = clients.key_name(key);
    op.delta = 1;
    if (verb != Verb::kGet) op.value = clients.new_value(8);
    op = clients.ask(std::move(op), proxy);
    if (op.answer == Answer::kNone && op.error.starts_with("lost")) continue;
    run.violation(Fault::kStale, "not an error, though the partition is LOST: " + to_string(op));
  }
}

bool lacks_too_many(Parts& parts, int key, SimProxy& proxy) {
  const auto report = parts.audit.inspect(key, proxy);
  if (!report || report->record == nullptr) return false;
  return std::ranges::any_of(report->segments, [&](const SegmentHealth& segment) {
    return segment.missing.size() > report->record->content.scheme.m;
  });
}

}  // namespace

void accept_loss(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  SimProxy& proxy = *cluster.decider();
  const bool has_loss = proxy.decider()->status().can_accept_loss;
  std::set<int> lost = find_lost_keys(parts, proxy);
  for (const int key : lost) {
    if (!may_be_revived(parts, key)) check_refusals(parts, key, proxy);
  }
  if (!lost.empty() && run.random.chance(0.5)) {
    // A blind SET revives its key, which then has to survive.
    const int key = *lost.begin();
    const auto size = static_cast<size_t>(run.random.below(3 * run.scenario.cluster.segment_bytes));
    const auto set = clients.ask(Verb::kSet, key, proxy, clients.new_value(size));
    if (set.answer == Answer::kDone) lost.erase(key);
  }
  if (!run.is_ok()) return;

  run.trace.add("-- accept the loss of {} keys", lost.size());
  std::vector<size_t> losses;
  for (const int key : lost) losses.push_back(clients.begin_loss(key, proxy));
  // Those that lack too many shards are forgotten in the background, as far as they are known.
  for (int key = 0; key < run.scenario.workload.keys && run.is_ok(); ++key) {
    if (lost.contains(key) || !lacks_too_many(parts, key, proxy)) continue;
    clients.begin_loss(key, proxy);  // it may happen at any time, or never
  }
  cluster.note_accepted_loss();
  const auto is_answered = std::make_shared<bool>(!has_loss);
  if (has_loss) {
    proxy.do_task(decider::AcceptLoss{}, [is_answered](const auto&) { *is_answered = true; });
  }
  if (!run.until(kHealLimit, [&] { return *is_answered && cluster.is_settled(); })) {
    return run.violation(Fault::kStuck, "after the loss was accepted: " + cluster.why_unsettled());
  }
  for (const size_t index : losses) clients.end_loss(index);
  audit.read_everything("after the loss was accepted");
  clients.start(run.scenario.workload.operations / 2);
  if (!finish_clients(parts)) return;
  audit.read_everything("after going on");
}

}  // namespace elastripe::sim
