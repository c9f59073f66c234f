// The cluster heals itself: after any failure, and without being told.
#include "proxy/ops/jobs/repairer.h"
#include "tests/unit/ops/jobs/moving_fixture.h"

using namespace elastripe;

namespace {

// A decider whose proxy repairs, beside one that clients use.
struct Healing : Moving {
  explicit Healing(RepairSettings settings = {})
      : Moving(9, "ers-2:4,2,5"), repairer(decider->ops(), settings) {
    running.spawn(repairer.run());
    for (size_t i = 0; i < kObjects; ++i) {
      REQUIRE(cluster.put(*proxy, key(i), value_of(1000 + 500 * i)));
    }
  }
  ~Healing() {
    decider->kill();
    cluster.run_until([&] { return running.live() == 0; });
  }
  static std::string key(size_t i) { return "many" + std::to_string(i); }

  void lose(NodeId id) {
    cluster.node(id).kill(/*silent=*/false);
    REQUIRE(cluster.run_until([&] { return state_of(*decider, id) == node::NodeState::kLost; }));
  }
  uint64_t restored() { return decider->ops().counters.repaired_shards; }
  bool is_whole() {
    if (!cluster.serves_whole(*decider)) return false;
    follow();
    for (size_t i = 0; i < kObjects; ++i) {
      const auto report = cluster.run(inspect_object(proxy->ops(), key(i), cluster.deadline()));
      if (!report) return false;  // the map has changed meanwhile
      for (const auto& segment : report->segments) {
        if (!segment.missing.empty() || !segment.unreachable.empty()) return false;
      }
      const std::string value = cluster.get(*proxy, key(i));
      if (proxy->map().current()->epoch != decider->map().current()->epoch)
        return false;  // likewise
      CHECK(value == value_of(1000 + 500 * i));
    }
    return true;
  }
  bool becomes_whole(Duration limit) {
    const TimePoint end = cluster.events().now() + limit;
    while (!is_whole()) {
      if (cluster.events().now() >= end) return false;
      cluster.run_for(1s);
    }
    return true;
  }

  static constexpr size_t kObjects = 12;
  Repairer repairer;
  Scope running;
};

}  // namespace

TEST_CASE("a node that is back without its shards gets them again at once", "[repairer]") {
  Healing s;
  s.lose(0);
  s.cluster.node(0).start();
  CHECK(s.becomes_whole(20s));
  CHECK(s.restored() > 0);
}

TEST_CASE("the shards of a node that stays lost are made again on others, in time", "[repairer]") {
  Healing s;
  s.lose(0);
  s.cluster.run_for(50s);
  CHECK(s.restored() == 0);
  CHECK(s.repairer.status().waits_for == "node node-0 to come back");
  CHECK(s.becomes_whole(30s));
  CHECK_FALSE(s.repairer.status().is_running);
  CHECK(s.repairer.status().progress.counts.done > 0);
}

TEST_CASE("repair may be turned on, off and hurried while the repairer runs", "[repairer]") {
  Healing s({.is_automatic = false, .after = 5s});
  s.lose(0);
  s.cluster.run_for(200s);
  CHECK(s.restored() == 0);
  CHECK(s.repairer.status().waits_for.empty());
  s.repairer.change_settings({.after = 5s, .rate = 1});
  const auto is_running = [&] { return s.repairer.status().is_running; };
  REQUIRE(s.cluster.run_until(is_running, 20s));
  s.repairer.change_settings({.is_automatic = false});
  REQUIRE(s.cluster.run_until([&] { return !is_running(); }, 20s));
  CHECK(s.repairer.status().progress.state == JobState::kCancelled);
  s.repairer.change_settings({.after = 5s, .rate = 1});
  REQUIRE(s.cluster.run_until(is_running, 2h));
  s.cluster.run_for(20s);
  CHECK(s.is_whole() == false);
  s.repairer.change_settings({.after = 5s});
  CHECK(s.becomes_whole(20s));
}

TEST_CASE("nodes that are restarted one after the other lose nothing", "[repairer]") {
  Healing s;
  for (NodeId id = 0; id < 9; ++id) {
    s.lose(id);
    s.cluster.node(id).start();
    REQUIRE(s.becomes_whole(30s));
  }
}

TEST_CASE("a node that stays silent is given up in the end", "[repairer]") {
  Healing s;
  s.cluster.node(0).stall();
  REQUIRE(s.cluster.run_until([&] { return state_of(*s.decider, 0) == node::NodeState::kSuspect; },
                              20s));
  s.cluster.run_for(30s);
  CHECK(s.restored() == 0);
  CHECK(s.repairer.status().settled_in != s.decider->map().current()->epoch);
  // It becomes away with the next map that is made once all is synced.
  s.lose(1);
  CHECK(s.becomes_whole(200s));
  s.cluster.node(0).resume();
  CHECK(s.becomes_whole(30s));
}

TEST_CASE("two that are lost together are made up for", "[repairer]") {
  Healing s({.after = 5s});
  s.lose(3);
  s.lose(7);
  CHECK(s.becomes_whole(60s));
  s.lose(1);
  CHECK(s.is_whole() == false);
  CHECK(s.becomes_whole(60s) == false);  // six nodes are left for seven shards
  CHECK(s.repairer.status().progress.counts.refused > 0);
  s.cluster.node(7).start();
  CHECK(s.becomes_whole(60s));
}

namespace {

void drain(Healing& s, NodeId id) {
  MemberChange change{.kind = MemberChange::Kind::kDrain, .node = {}};
  change.node.name = "node-" + std::to_string(id);
  // Not just while another map is being made.
  REQUIRE(s.cluster.run_until(
      [&] {
        auto asked = s.decider->decider()->change_members(change, s.cluster.deadline());
        return s.cluster.run(std::move(asked)).has_value();
      },
      10s));
}

size_t shards_on(Healing& s, NodeId id) {
  return s.decider->decider()->status().nodes[id].statistics.shards;
}

}  // namespace

TEST_CASE("the shards of a node that drains are copied to others, and nothing else is read",
          "[repairer]") {
  Healing s;
  s.cluster.run_for(1s);  // heartbeats tell what there is
  const size_t shards = shards_on(s, 2);
  drain(s, 2);
  CHECK(s.cluster.run_until([&] { return shards_on(s, 2) == 0; }, 60s));
  CHECK(s.becomes_whole(20s));
  CHECK(s.restored() == 0);
  const OpsCounters& counters = s.decider->ops().counters;
  CHECK(counters.moved_shards == shards);
  CHECK(counters.moved_bytes > 0);
  for (size_t i = 0; i < Healing::kObjects; ++i) {
    const auto report =
        s.cluster.run(inspect_object(s.proxy->ops(), Healing::key(i), s.cluster.deadline()));
    REQUIRE(report);
    for (const auto& segment : report->record->content.segments) {
      CHECK(std::ranges::count(segment.placement, 2) == 0);
    }
  }
  // It may go now, and nothing is missed.
  s.lose(2);
  CHECK(s.becomes_whole(5s));
}

TEST_CASE("what lacks shards gets them before others move", "[repairer]") {
  Healing s;
  s.lose(0);
  drain(s, 2);
  s.cluster.node(0).start();
  CHECK(s.cluster.run_until(
      [&] { return s.cluster.serves_whole(*s.decider) && shards_on(s, 2) == 0; }, 120s));
  CHECK(s.becomes_whole(20s));
  CHECK(s.restored() > 0);
  CHECK(s.decider->ops().counters.moved_shards > 0);
}

TEST_CASE("what full nodes had no room for is restored soon after they have some", "[repairer]") {
  Healing s({.after = 1s});
  s.lose(0);
  REQUIRE(s.cluster.run_until([&] { return s.cluster.serves_whole(*s.decider); }));
  std::vector<int> fillers(9);
  for (NodeId id = 1; id < 9; ++id) fillers[id] = s.fill(id);
  const auto epoch = s.decider->map().current()->epoch;
  s.cluster.run_for(40s);
  CHECK(s.restored() == 0);
  REQUIRE_FALSE(s.repairer.status().is_running);
  CHECK_FALSE(s.repairer.status().progress.problems.empty());
  for (NodeId id = 1; id < 9; ++id) s.make_room(id, fillers[id]);
  CHECK(s.becomes_whole(15s));
  CHECK(s.decider->map().current()->epoch == epoch);
}

TEST_CASE("what no other node can take stays on the one that drains", "[repairer]") {
  Healing s;
  s.lose(0);
  s.lose(1);
  drain(s, 2);
  s.cluster.run_for(100s);
  CHECK(shards_on(s, 2) > 0);
  CHECK_FALSE(s.repairer.status().progress.problems.empty());
  s.follow();
  for (size_t i = 0; i < Healing::kObjects; ++i) {
    CHECK(s.cluster.get(*s.proxy, Healing::key(i)) == value_of(1000 + 500 * i));
  }
  s.cluster.node(0).start();
  s.cluster.node(1).start();
  CHECK(s.cluster.run_until([&] { return shards_on(s, 2) == 0; }, 200s));
  CHECK(s.becomes_whole(20s));
}

TEST_CASE("a node that has just gone does not keep what others lack from being made again",
          "[repairer]") {
  Healing s;
  s.lose(0);
  s.lose(1);
  s.cluster.node(0).start();
  REQUIRE(s.cluster.run_until(
      [&] {
        return s.repairer.status().waits_for == "node node-1 to come back" && s.restored() > 0;
      },
      30s));
  const uint64_t restored = s.restored();
  s.follow();
  size_t on_the_other = 0;
  for (size_t i = 0; i < Healing::kObjects; ++i) {
    const auto report =
        s.cluster.run(inspect_object(s.proxy->ops(), Healing::key(i), s.cluster.deadline()));
    REQUIRE(report);
    for (size_t n = 0; n < report->segments.size(); ++n) {
      const auto& placement = report->record->content.segments[n].placement;
      for (const uint8_t index : report->segments[n].missing) {
        CHECK(placement[index] == 1);
        ++on_the_other;
      }
    }
  }
  CHECK(on_the_other > 0);  // it may still come back, and does
  s.cluster.node(1).start();
  CHECK(s.becomes_whole(20s));
  CHECK(s.restored() == restored + on_the_other);
}

TEST_CASE("a job starts again when another node goes", "[repairer]") {
  Healing s({.after = 5s, .rate = 500, .parallel = 1});
  s.lose(3);
  REQUIRE(
      s.cluster.run_until([&] { return s.repairer.status().is_running && s.restored() > 0; }, 60s));
  const Duration before = s.repairer.status().progress.elapsed;
  const uint64_t restored = s.restored();
  s.lose(7);
  const auto is_running = [&] { return s.repairer.status().is_running; };
  REQUIRE(s.cluster.run_until(
      [&] { return is_running() && s.repairer.status().progress.elapsed < before; }, 60s));
  REQUIRE(s.cluster.run_until([&] { return is_running() && s.restored() > restored; }, 60s));
  CHECK(s.becomes_whole(1000s));
}
