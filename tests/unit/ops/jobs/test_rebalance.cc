// Shards move from full nodes to empty ones, and no further than that takes.
#include <algorithm>
#include <map>

#include "proxy/ops/jobs/rebalance_job.h"
#include "tests/unit/ops/jobs/moving_fixture.h"

using namespace elastripe;

namespace {

constexpr uint64_t kLimit = 1 << 20;
const coding::Scheme kScheme = coding::parse_scheme("rs:2,1").value();

// Nodes of 1 MiB that are up, each in its own domain, so full.
struct Fleet {
  explicit Fleet(const std::vector<double>& fills) : rooms(fills.size()) {
    for (size_t i = 0; i < fills.size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      node::NodeInfo& node = map.nodes.emplace_back();
      node.id = id;
      node.name = node.domain = "n" + std::to_string(i);
      node.incarnation = 1;
      node.state = node::NodeState::kUp;
      rooms.note_limit_bytes(id, kLimit);
      rooms.note_free_bytes(id, kLimit - static_cast<uint64_t>(fills[i] * kLimit));
    }
  }
  Balance balance() const { return {map, rooms}; }
  // Segments of three shards of 4 KiB, all on the same nodes.
  static std::vector<node::Segment> segments(size_t count, std::vector<NodeId> on) {
    node::Segment segment;
    segment.state = coding::State::kNarrow;
    segment.length = 8 << 10;
    segment.block_bytes = 4 << 10;
    segment.placement = std::move(on);
    return std::vector(count, segment);
  }

  node::ClusterMap map;
  NodeRooms rooms;
};

}  // namespace

TEST_CASE("nodes that are about as full as each other keep their shards") {
  Fleet fleet({0.51, 0.50, 0.495, 0.50});
  Balance balance = fleet.balance();
  for (const auto& segment : Fleet::segments(10, {0, 1, 2})) {
    CHECK(balance.take(fleet.map, kScheme, segment).empty());
  }
}

TEST_CASE("shards move until nodes are equally full, and no further") {
  Fleet fleet({0.6, 0.6, 0.6, 0.2});
  Balance balance = fleet.balance();
  std::map<NodeId, uint64_t> left;
  uint64_t moved = 0;
  for (const auto& segment : Fleet::segments(100, {0, 1, 2})) {
    const auto moves = balance.take(fleet.map, kScheme, segment);
    CHECK(moves.size() <= 1);  // no node has two shards of a segment
    for (const ShardMove& move : moves) {
      CHECK(move.to == 3);
      CHECK(move.bytes == 4 << 10);
      left[move.from] += move.bytes;
      moved += move.bytes;
    }
  }
  const double wanted = 0.3 * kLimit;
  CHECK(static_cast<double>(moved) <= wanted);
  CHECK(static_cast<double>(moved) > wanted - Balance::kTolerance * kLimit - (8 << 10));
}

TEST_CASE("a node that already has the segment's domain gets none of its shards") {
  Fleet fleet({0.9, 0.5, 0.5, 0.1, 0.2});
  fleet.map.nodes[3].domain = "n1";
  Balance balance = fleet.balance();
  const auto moves = balance.take(fleet.map, kScheme, Fleet::segments(1, {0, 1, 2}).front());
  REQUIRE(moves.size() == 2);
  CHECK(moves[0].to == 4);  // for n0: n1 is in the domain of the emptiest
  CHECK(moves[1].shard == 1);
  CHECK(moves[1].to == 3);  // for n1 itself it is not
}

TEST_CASE("nodes that are gone, drain, or tell nothing take no part") {
  Fleet fleet({0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.5});
  fleet.map.nodes[3].state = node::NodeState::kAway;
  fleet.map.nodes[4].role = node::NodeRole::kDraining;
  fleet.rooms.note_free_bytes(5, UINT64_MAX);
  Balance balance = fleet.balance();
  const auto segment = Fleet::segments(1, {0, 1, 2}).front();
  const auto moves = balance.take(fleet.map, kScheme, segment);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].to == 6);
  fleet.map.nodes[6].state = node::NodeState::kLost;  // since then
  CHECK(balance.take(fleet.map, kScheme, segment).empty());
}

TEST_CASE("a move that is put back can be taken again") {
  Fleet fleet({0.53, 0.5, 0.5});
  Balance balance = fleet.balance();
  const auto segment = Fleet::segments(1, {0, 1, kNoNode}).front();
  const size_t rounds = 100;
  for (size_t i = 0; i < rounds; ++i) {
    const auto moves = balance.take(fleet.map, kScheme, segment);
    REQUIRE(moves.size() == 1);
    balance.put_back(moves.front());
  }
}

namespace {

constexpr sim::NodeMemory kSmall{.limit_bytes = 288 << 10, .reserve_bytes = 32 << 10};

// Objects were written while the last node was away.
struct Uneven {
  static constexpr size_t kNodes = 7;
  static constexpr size_t kObjects = 60;

  Uneven() : cluster(kNodes, "rs:2,1", 1, kSmall) {
    cluster.settings.read_grace = 1s;
    proxy = &cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(*proxy); }));
    cluster.node(kNodes - 1).kill(/*silent=*/false);
    REQUIRE(cluster.run_until([&] {
      const MapPtr map = proxy->map().current();
      return map != nullptr && !map->is_up(kNodes - 1) && cluster.serves_whole(*proxy);
    }));
    for (size_t i = 0; i < kObjects; ++i) {
      REQUIRE(cluster.put(*proxy, key(i), value_of(4000 + 100 * i)));
    }
    cluster.node(kNodes - 1).start();
    REQUIRE(cluster.run_until([&] {
      const MapPtr map = proxy->map().current();
      return map != nullptr && map->is_up(kNodes - 1) && cluster.serves_whole(*proxy);
    }));
    cluster.run_for(5s);  // heartbeats tell what there is
  }
  static std::string key(size_t i) { return "many" + std::to_string(i); }
  double fill(size_t id) {
    const auto memory = cluster.node(id).store().memory();
    return 1 - static_cast<double>(memory.free_bytes) / static_cast<double>(memory.limit_bytes);
  }
  double spread() {
    std::vector<double> fills;
    for (size_t id = 0; id < kNodes; ++id) fills.push_back(fill(id));
    return std::ranges::max(fills) - std::ranges::min(fills);
  }
  JobProgress run(RebalanceJobSpec spec) {
    RebalanceJob job(proxy->ops(), spec);
    Scope scope;
    scope.spawn(job.run());
    REQUIRE(cluster.run_until([&] { return scope.live() == 0; }));
    return job.progress();
  }
  void check_all() {
    for (size_t i = 0; i < kObjects; ++i) {
      CHECK(cluster.get(*proxy, key(i)) == value_of(4000 + 100 * i));
      const auto scrubbed = cluster.run(scrub_object(proxy->ops(), key(i), cluster.deadline()));
      REQUIRE(scrubbed.has_value());
      CHECK(scrubbed->is_clean());
    }
  }

  ClusterFixture cluster;
  sim::SimProxy* proxy = nullptr;
};

}  // namespace

TEST_CASE("a node that is new gets its part of the shards, by copying") {
  Uneven s;
  const double before = s.spread();
  CHECK(before > 0.3);
  const size_t shards = s.cluster.shards();
  const JobProgress plan = s.run({.job = {.dry_run = true}});
  CHECK(plan.planned.shards > 0);
  CHECK(s.proxy->ops().counters.moved_shards == 0);
  const JobProgress done = s.run({});
  CHECK(done.state == JobState::kDone);
  CHECK(done.counts.failed + done.counts.refused == 0);
  CHECK(done.done.shards == done.planned.shards);
  // Which objects go depends on the order in which they are met, how much hardly does.
  const auto sent = static_cast<double>(done.done.traffic.bytes_sent);
  CHECK(sent == Approx(static_cast<double>(plan.planned.traffic.bytes_sent)).epsilon(0.1));
  CHECK(s.proxy->ops().counters.moved_shards == done.done.shards);
  CHECK(s.proxy->ops().counters.repaired_shards == 0);
  s.cluster.run_for(10s);  // what has moved is deleted where it was
  CHECK(s.cluster.shards() == shards);
  CHECK(s.spread() < 0.15);
  s.check_all();
  CHECK(s.run({}).done.shards <= done.done.shards / 10);  // nothing to speak of is left to do
}

TEST_CASE("what lacks shards is left to repair") {
  Uneven s;
  s.cluster.node(0).kill(/*silent=*/false);
  REQUIRE(s.cluster.run_until([&] {
    const MapPtr map = s.proxy->map().current();
    return map != nullptr && !map->is_up(0) && s.cluster.serves_whole(*s.proxy);
  }));
  const JobProgress done = s.run({});
  CHECK(done.state == JobState::kDone);
  CHECK(done.counts.failed + done.counts.refused == 0);
  CHECK(done.counts.done > 0);
  CHECK(done.counts.already_there > 0);
  CHECK(s.proxy->ops().counters.repaired_shards == 0);
}
