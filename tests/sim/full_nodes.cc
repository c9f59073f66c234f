#include <algorithm>

#include "proxy/ops/decider/room_watch.h"
#include "tests/sim/phases.h"

using namespace elastripe::decider;

namespace elastripe::sim {

using std::chrono::seconds;

namespace {

// Beyond the longest wait until a node that had no room is tried again.
constexpr Duration kRoomLimit = RoomWatch::kLongestWait + kHealLimit;

// The records of a node that dies have nowhere to go: all of them can be read, and then deleted,
// all the same. False if none can die just now.
bool kill_one_of_full_nodes(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  const node::NodeId victim = promise.doomed().front();
  // Everything is at all its homes: one death is within the promise.
  if (!cluster.is_settled() || cluster.decider()->decider()->status().partitions_short > 0)
    return false;
  run.trace.add("-- node {} dies while all are full", victim);
  promise.forget_failures();
  promise.note_failure(victim);
  cluster.node(victim).kill(/*silent=*/false);
  // Some look before it is known who has no room.
  const bool at_once = run.random.chance(0.3);
  if (!at_once && !run.until(kHealLimit, [&] { return cluster.is_settled_without(victim); })) {
    blame_unrest(parts, "a full cluster does not come to rest when a node dies");
  }
  if (run.is_ok()) audit.read_everything("with full nodes and a dead one");
  return true;
}

void delete_everything(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- delete everything");
  for (int key = 0; key < run.scenario.workload.keys && run.is_ok(); ++key) {
    Operation op = clients.ask(Verb::kDelete, key, *cluster.decider());
    // The map may have changed just then.
    if (op.answer == Answer::kNone) op = clients.ask(Verb::kDelete, key, *cluster.decider());
    if (op.answer == Answer::kDone || op.answer == Answer::kNotFound) continue;
    run.violation(Fault::kRefused, "a full node does not delete: " + to_string(op));
  }
}

void flush_everything(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- flush everything");
  Operation flush;
  flush.verb = Verb::kFlush;
  Operation op = clients.ask(flush, *cluster.decider());
  // The map may have changed just then.
  if (op.answer == Answer::kNone) op = clients.ask(flush, *cluster.decider());
  if (op.answer != Answer::kDone) {
    return run.violation(Fault::kRefused, "full nodes are not flushed: " + to_string(op));
  }
  audit.read_everything("after a flush");
  // What a proxy has left half-way is collected once it is at its tail, where asking takes it.
  if (run.is_ok()) delete_everything(parts);
}

}  // namespace

void fill_nodes(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- fill the nodes");
  // Writes of unknown outcome may come as late as the network lets them.
  run.let_pass(run.scenario.cluster.network.late_max + seconds(1));
  SimProxy& proxy = *cluster.decider();
  const size_t large = 3 * size_t{run.scenario.cluster.segment_bytes};
  for (int round = 0; round < 3; ++round) {
    for (int key = 0; key < run.scenario.workload.keys && run.is_ok(); ++key) {
      const size_t bytes = (key + round) % 3 == 0 ? run.scenario.cluster.inline_max_bytes : large;
      clients.ask(Verb::kSet, key, proxy, clients.new_value(bytes));
    }
  }
  audit.read_everything("with full nodes");
  const bool one_dies = run.is_ok() && run.random.chance(0.7) && kill_one_of_full_nodes(parts);
  const bool returns_first = run.random.chance(0.3);
  const auto restart = [&] {
    cluster.node(promise.doomed().front()).start();
    come_to_rest(parts, "a full cluster does not take a node back");
  };
  if (run.is_ok() && one_dies && returns_first) restart();
  if (run.is_ok() && one_dies && returns_first)
    audit.read_everything("with a node back among full ones");
  if (run.is_ok() && run.scenario.workload.flushes > 0 && run.random.chance(0.5)) {
    flush_everything(parts);
  } else if (run.is_ok()) {
    delete_everything(parts);
  }
  if (run.is_ok() && one_dies && !returns_first) restart();
  if (run.is_ok() && !run.until(kHealLimit, [&] { return audit.what_is_kept().empty(); })) {
    run.violation(Fault::kLeak, "all is deleted, and " + audit.what_is_kept());
  }
  // Nodes that had no room are tried again, sooner or later.
  const auto has_all_homes = [&] {
    return cluster.is_settled() && cluster.decider()->decider()->status().partitions_short == 0;
  };
  if (run.is_ok() && !run.until(kRoomLimit, has_all_homes)) {
    run.violation(Fault::kStuck,
                  "there is room, and partitions lack homes: " + cluster.why_unsettled());
  }
  run.let_pass(seconds(1));  // heartbeats tell of the room
  for (int key = 0; key < std::min(run.scenario.workload.keys, 3) && run.is_ok(); ++key) {
    const Operation op = clients.ask(Verb::kSet, key, proxy, clients.new_value(large));
    if (op.answer == Answer::kDone) continue;
    run.violation(Fault::kRefused, "empty nodes refuse: " + to_string(op));
  }
}

}  // namespace elastripe::sim
