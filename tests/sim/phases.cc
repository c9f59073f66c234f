// Phases of some schedules, after all has healed: nodes that are filled, a loss that is accepted,
// the loss of m nodes.
#include <algorithm>

#include "proxy/base/check.h"
#include "tests/sim/world_internal.h"

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Until the nodes refuse: what was acknowledged is whole, deletes work, and give the memory back.
void World::fill_nodes() {
  trace_.add("-- fill the nodes");
  // Writes of unknown outcome may come as late as the network lets them.
  run_until(scenario_.network.late_max + seconds(1), [] { return false; });
  SimProxy& proxy = *decider();
  const size_t large = 3 * size_t{scenario_.segment_bytes};
  for (int round = 0; round < 3; ++round) {
    for (int key = 0; key < scenario_.keys && result_.ok(); ++key) {
      const size_t bytes = (key + round) % 3 == 0 ? scenario_.inline_max_bytes : large;
      ask(Verb::kSet, key, proxy, unique_value(history_.size(), bytes));
    }
  }
  audit("with full nodes");
  const bool one_dies = result_.ok() && random_.chance(0.7) && kill_one_of_full_nodes();
  const bool returns_first = random_.chance(0.3);
  const auto restart = [this] {
    network_.node(doomed_.front()).start();
    if (run_until(kHealLimit, [this] { return is_settled(); })) return;
    unsettled("a full cluster does not take a node back");
  };
  if (result_.ok() && one_dies && returns_first) restart();
  if (result_.ok() && one_dies && returns_first) audit("with a node back among full ones");
  if (result_.ok()) delete_everything();
  if (result_.ok() && one_dies && !returns_first) restart();
  if (result_.ok() && !run_until(kHealLimit, [this] { return what_is_kept().empty(); })) {
    violation(Fault::kLeak, "all is deleted, and " + what_is_kept());
  }
  // Nodes that had no room are tried again, sooner or later.
  const auto has_all_homes = [this] {
    return is_settled() && decider()->decider()->status().partitions_short == 0;
  };
  if (result_.ok() && !run_until(kRoomLimit, has_all_homes)) {
    violation(Fault::kStuck, "there is room, and partitions lack homes: " + why_unsettled());
  }
  for (int key = 0; key < std::min(scenario_.keys, 3) && result_.ok(); ++key) {
    const Operation op = ask(Verb::kSet, key, proxy, unique_value(history_.size(), large));
    if (op.answer == Answer::kDone) continue;
    violation(Fault::kRefused, "empty nodes refuse: " + to_string(op));
  }
}

// Its records have nowhere to go: all of them can be read, and then deleted, all the same. False if
// it can not be just now.
bool World::kill_one_of_full_nodes() {
  const node::NodeId victim = doomed_.front();
  // Everything is at all its homes: one death is within the promise.
  if (!is_settled() || decider()->decider()->status().partitions_short > 0) return false;
  trace_.add("-- node {} dies while all are full", victim);
  failed_.clear();
  note_failure(victim);
  network_.node(victim).kill(/*silent=*/false);
  // Some look before it is known who has no room.
  const bool at_once = random_.chance(0.3);
  if (!at_once && !run_until(kHealLimit, [&] { return is_settled_without(victim); })) {
    unsettled("a full cluster does not come to rest when a node dies");
  }
  if (result_.ok()) audit("with full nodes and a dead one");
  return true;
}

void World::delete_everything() {
  trace_.add("-- delete everything");
  for (int key = 0; key < scenario_.keys && result_.ok(); ++key) {
    Operation op = ask(Verb::kDelete, key, *decider());
    if (op.answer == Answer::kNone)
      op = ask(Verb::kDelete, key, *decider());  // the map had changed
    if (op.answer == Answer::kDone || op.answer == Answer::kNotFound) continue;
    violation(Fault::kRefused, "a full node does not delete: " + to_string(op));
  }
}

// An item that some node holds, or empty. A source that is no home any more, and was not told that
// it may forget, keeps its records until the next map.
std::string World::what_is_kept() {
  const node::MapPtr map = decider() == nullptr ? nullptr : decider()->map().current();
  if (map == nullptr) return "nobody knows what";
  std::string kept;
  for (size_t id = 0; id < network_.nodes(); ++id) {
    node::ArenaStore& store = network_.node(id).store();
    uint64_t cursor = 0;
    do {
      cursor = store.walk(cursor, [&](const node::ItemRef& item) {
        const bool is_shard = store.key(item)[0] == '\x02';
        const std::string_view key = store.key(item).substr(1);
        const auto& homes = map->partitions[map->partition_of(key)].homes;
        const bool is_home = std::ranges::find(homes, id) != homes.end();
        if (!is_shard && !is_home) return true;
        kept = fmt::format("node {} keeps {} bytes of {}", id, store.value_bytes(item),
                           is_shard ? "a shard" : key);
        return true;
      });
    } while (cursor != 0);
  }
  return kept;
}

// The keys whose records are gone.
std::set<int> World::find_lost_keys(SimProxy& proxy) {
  std::set<int> lost;
  const node::MapPtr map = proxy.map().current();
  for (int key = 0; key < scenario_.keys && result_.ok(); ++key) {
    const auto report = inspect(key, proxy);
    if (report) continue;
    const bool is_lost = map->partitions[map->partition_of(key_name(key))].lost;
    if (!is_lost || report.error().code != ErrorCode::kLost) {
      violation(Fault::kLost, fmt::format("{} is in a {} partition: {}", key_name(key),
                                          is_lost ? "LOST" : "whole", to_string(report.error())));
    }
    lost.insert(key);
  }
  return lost;
}

// A blind SET of unknown outcome may have revived the key, at its head only: then reads say that it
// is lost, and what the head decides takes effect.
bool World::may_be_revived(int key) const {
  return std::ranges::any_of(history_, [&](const Operation& op) {
    return op.verb == Verb::kSet && op.key == key_name(key) && op.answer == Answer::kUnknown;
  });
}

// Whatever depends on what a lost key was is an error that says so.
void World::check_refusals(int key, SimProxy& proxy) {
  for (const Verb verb : {Verb::kGet, Verb::kAdd, Verb::kReplace, Verb::kAppend, Verb::kPrepend,
                          Verb::kIncrement, Verb::kDecrement, Verb::kDelete, Verb::kTouch}) {
    Operation op;
    op.verb = verb;
    op.key = key_name(key);
    op.delta = 1;
    if (verb != Verb::kGet) op.value = unique_value(history_.size(), 8);
    op = ask(std::move(op), proxy);
    if (op.answer == Answer::kNone && op.error.starts_with("lost")) continue;
    violation(Fault::kStale, "not an error, though the partition is LOST: " + to_string(op));
  }
}

bool World::lacks_too_many(int key, SimProxy& proxy) {
  const auto report = inspect(key, proxy);
  if (!report || report->record == nullptr) return false;
  return std::ranges::any_of(report->segments, [&](const SegmentHealth& segment) {
    return segment.missing.size() > report->record->content.scheme.m;
  });
}

void World::accept_loss() {
  SimProxy& proxy = *decider();
  const bool has_loss = proxy.decider()->status().can_accept_loss;
  std::set<int> lost = find_lost_keys(proxy);
  for (const int key : lost) {
    if (!may_be_revived(key)) check_refusals(key, proxy);
  }
  if (!lost.empty() && random_.chance(0.5)) {
    // A blind SET revives its key, which then has to survive.
    const int key = *lost.begin();
    const auto size = static_cast<size_t>(random_.below(3 * scenario_.segment_bytes));
    const auto set = ask(Verb::kSet, key, proxy, unique_value(history_.size(), size));
    if (set.answer == Answer::kDone) lost.erase(key);
  }
  if (!result_.ok()) return;

  trace_.add("-- accept the loss of {} keys", lost.size());
  std::vector<size_t> losses;
  for (const int key : lost) {
    Operation op;
    op.verb = Verb::kLose;
    op.key = key_name(key);
    op.client = kAuditor;
    losses.push_back(begin(std::move(op), proxy));
  }
  // Those that lack too many shards are forgotten in the background, as far as they are known.
  for (int key = 0; key < scenario_.keys && result_.ok(); ++key) {
    if (!lost.contains(key) && lacks_too_many(key, proxy)) {
      Operation op;
      op.verb = Verb::kLose;
      op.key = key_name(key);
      op.client = kAuditor;
      begin(std::move(op), proxy);  // it may happen at any time, or never
    }
  }
  accepted_loss_ = true;
  if (has_loss) (void)proxy.decider()->accept_loss();
  if (!run_until(kHealLimit, [this] { return is_settled(); })) {
    return violation(Fault::kStuck, "after the loss was accepted: " + why_unsettled());
  }
  for (const size_t index : losses) {
    Operation& op = history_[index];
    op.answer = Answer::kDone;
    op.returned = ++order_;
    op.returned_ms = clock_.unix_ms();
    ++result_.totals.lost_keys;
  }
  audit("after the loss was accepted");
  start_clients(scenario_.operations / 2);
  if (!run_until(kHealLimit, [this] { return clients_left_ == 0; })) {
    return violation(Fault::kStuck, "a client's operation does not end");
  }
  audit("after going on");
}

void World::kill_to_the_limit() {
  trace_.add("-- kill as many nodes as the scheme survives");
  std::erase_if(doomed_, [this](node::NodeId id) { return !node_is_up(id); });
  failed_.clear();
  std::erase_if(doomed_, [this](node::NodeId id) {
    if (!is_tolerated(id) || !can_spare(id, false)) return true;
    note_failure(id);
    network_.node(id).kill(false);
    return false;
  });
  // Half of the schedules read while the nodes are down, half after they are back, empty.
  const bool restart = random_.chance(0.5);
  if (restart) {
    run_until(milliseconds(static_cast<int64_t>(random_.below(2000))), [] { return false; });
    for (const node::NodeId id : doomed_) {
      if (!network_.node(id).is_up()) network_.node(id).start();
    }
    if (!run_until(kHealLimit, [this] { return is_settled(); })) {
      unsettled("the cluster does not heal");
    }
  } else {
    run_until(seconds(5), [] { return false; });
  }
}

}  // namespace elastripe::sim
