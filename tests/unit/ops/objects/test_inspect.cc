// What `elastripe object KEY` shows while nodes die, stall and change their map.
#include <catch2/catch.hpp>

#include "proxy/ops/shards.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace std::chrono_literals;

namespace {

struct Inspection : ClusterFixture {
  Inspection() : ClusterFixture(5, "rs:2,1"), proxy(add_decider()) {
    REQUIRE(run_until([&] { return serves_whole(proxy); }));
    REQUIRE(put(proxy, "key", std::string(3000, 'v')));
    placement = inspect().record->content.segments.at(0).placement;
  }
  ObjectReport inspect() { return run(inspect_object(proxy.ops(), "key", deadline())).value(); }
  SegmentHealth health() { return inspect().segments.at(0); }

  sim::SimProxy& proxy;
  std::vector<NodeId> placement;
};

using Shards = std::vector<uint8_t>;

}  // namespace

TEST_CASE("a shard is missing if its node died, and unreachable if it is only silent") {
  Inspection s;
  CHECK(s.health().missing.empty());
  CHECK(s.health().unreachable.empty());
  s.node(s.placement[1]).stall();
  // Before the cluster knows of it, and after.
  for (const bool is_known : {false, true}) {
    INFO(is_known);
    if (is_known) {
      REQUIRE(s.run_until(
          [&] {
            return s.proxy.decider()->status().nodes[s.placement[1]].info.state ==
                   node::NodeState::kSuspect;
          },
          20s));
    }
    CHECK(s.health().missing.empty());
    CHECK(s.health().unreachable == Shards{1});
  }
  s.node(s.placement[1]).resume();
  REQUIRE(s.run_until(
      [&] { return s.serves_whole(s.proxy) && s.proxy.map().current()->is_up(s.placement[1]); },
      20s));
  CHECK(s.health().unreachable.empty());

  s.node(s.placement[2]).kill(/*silent=*/false);
  CHECK(s.health().missing == Shards{2});
  REQUIRE(s.run_until([&] { return s.serves_whole(s.proxy); }, 20s));
  CHECK(s.health().missing == Shards{2});
  s.node(s.placement[2]).start();
  REQUIRE(s.run_until(
      [&] { return s.serves_whole(s.proxy) && s.proxy.map().current()->is_up(s.placement[2]); },
      20s));
  CHECK(s.health().missing == Shards{2});
  CHECK(s.health().unreachable.empty());
}

TEST_CASE("an object is inspected again if the map changes meanwhile") {
  Inspection s;
  s.run_for(3s);  // until the decider has looked for shards that are missing
  const node::Epoch epoch = s.proxy.map().current()->epoch;
  NodeId other = 0;
  while (std::ranges::count(s.placement, other) > 0) ++other;
  int late = 0;
  s.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    if (header.opcode != node::Opcode::kShardConfirm || header.epoch != epoch) {
      return std::optional<Duration>();
    }
    // It arrives after the next map, which the death of a node without shards brings about.
    if (late++ == 0) s.node(other).kill(/*silent=*/false);
    return std::optional<Duration>(1500ms);
  });
  const SegmentHealth health = s.health();
  CHECK(late == 3);
  CHECK(s.proxy.map().current()->epoch.number > epoch.number);
  CHECK(health.missing.empty());
  CHECK(health.unreachable.empty());
}
