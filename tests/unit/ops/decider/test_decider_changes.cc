// What the operator has changed in a map: the members, and what counts as lost. It is answered when
// that map is served, as a change of the settings is.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/ops/decider/changing_fixture.h"

using namespace elastripe;
using namespace elastripe::decider;
using namespace std::chrono_literals;
using node::NodeState;

namespace {

class Operated : public ChangingFixture {
 public:
  using ChangingFixture::ChangingFixture;

  Task<Result<void>> drain(sim::SimProxy& proxy, node::NodeId id) {
    MemberChange change{.kind = MemberChange::Kind::kDrain, .node = {}};
    change.node.name = decider_settings.nodes[id].name;
    return proxy.decider()->change_members(std::move(change), proxy.clock().now() + 60s);
  }
  Task<Result<AcceptedLoss>> accept_loss(sim::SimProxy& proxy) {
    return proxy.decider()->accept_loss(proxy.clock().now() + 60s);
  }
  // A proxy that decides where both homes of some partitions have come back empty.
  sim::SimProxy& add_with_loss() {
    sim::SimProxy& proxy = add_serving();
    for (const node::NodeId id : std::to_array<node::NodeId>({2, 3})) {
      node(id).kill(/*silent=*/false);
      node(id).start();
    }
    REQUIRE(run_until([&] { return lost_at(proxy) > 0; }));
    run_for(3s);
    return proxy;
  }

  static bool is_draining(sim::SimProxy& proxy, node::NodeId id) {
    const MapPtr map = proxy.map().current();
    return map != nullptr && map->nodes[id].role == node::NodeRole::kDraining;
  }
  static size_t lost_at(sim::SimProxy& proxy) {
    const MapPtr map = proxy.map().current();
    if (map == nullptr) return 0;
    return static_cast<size_t>(std::ranges::count_if(map->partitions, &node::Partition::lost));
  }
};

}  // namespace

TEST_CASE("a change of the members is answered when its map is served, and no sooner") {
  Operated cluster;
  auto& first = cluster.add_serving();
  cluster.hold_maps_back(4, first.id());
  const auto& told = cluster.ask(first, cluster.drain(first, 1));
  cluster.run_for(500ms);
  REQUIRE_FALSE(told);
  CHECK_FALSE(Operated::is_draining(first, 1));
  // And lets no other one pass.
  const auto another = cluster.have(first, cluster.drain(first, 2));
  REQUIRE_FALSE(another);
  CHECK(another.error().code == ErrorCode::kUnavailable);

  cluster.network().set_delay_rule(nullptr);
  REQUIRE(cluster.run_until([&] { return told.has_value(); }));
  CHECK(told->has_value());
  CHECK(Operated::is_draining(first, 1));
  CHECK_FALSE(Operated::is_draining(first, 2));
}

TEST_CASE("a change of the members that changes nothing is answered at once") {
  Operated cluster;
  auto& first = cluster.add_serving();
  MemberChange change{.kind = MemberChange::Kind::kRefill, .node = {}};
  change.node.name = cluster.decider_settings.nodes[1].name;
  const uint32_t number = first.map().current()->epoch.number;
  const auto& told =
      cluster.ask(first, first.decider()->change_members(change, cluster.deadline()));
  REQUIRE(told);
  CHECK(told->has_value());
  CHECK(first.decider()->status().epoch.number == number);
}

TEST_CASE("a decider that is deposed does not know what becomes of its members") {
  Operated cluster;
  auto& first = cluster.add_serving();
  cluster.cut_off_with_node_0(first);
  const auto& told = cluster.ask(first, cluster.drain(first, 1));
  cluster.run_for(100ms);
  auto& second = cluster.add_serving();
  CHECK_FALSE(Operated::is_draining(second, 1));
  REQUIRE_FALSE(told);
  cluster.network().mend_all();
  REQUIRE(cluster.run_until([&] { return told.has_value(); }, 1s));
  CHECK(Operated::is_unknown(told));
}

TEST_CASE("an acceptance of loss is answered when its map is served, and no sooner") {
  Operated cluster(4);
  auto& first = cluster.add_with_loss();
  const size_t lost = Operated::lost_at(first);
  cluster.hold_maps_back(1, first.id());
  const auto& told = cluster.ask(first, cluster.accept_loss(first));
  cluster.run_for(500ms);
  REQUIRE_FALSE(told);
  CHECK(Operated::lost_at(first) == lost);
  cluster.network().set_delay_rule(nullptr);
  REQUIRE(cluster.run_until([&] { return told.has_value(); }));
  REQUIRE(told->has_value());
  CHECK((*told)->start_empty == lost);
  CHECK(Operated::lost_at(first) == 0);
}

TEST_CASE("a decider that is deposed does not know what becomes of a loss that it accepted") {
  Operated cluster(4);
  auto& first = cluster.add_with_loss();
  const size_t lost = Operated::lost_at(first);
  cluster.cut_off_with_node_0(first);
  const auto& told = cluster.ask(first, cluster.accept_loss(first));
  cluster.run_for(100ms);
  auto& second = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return second.map().current() != nullptr; }));
  CHECK(Operated::lost_at(second) >= lost);
  REQUIRE_FALSE(told);
  cluster.network().mend_all();
  REQUIRE(cluster.run_until([&] { return told.has_value(); }, 1s));
  CHECK(Operated::is_unknown(told));
}
