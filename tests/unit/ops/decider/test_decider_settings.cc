// Changes of the cluster's settings, and what is answered of them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "tests/unit/ops/decider/changing_fixture.h"

using namespace elastripe;
using namespace elastripe::decider;
using namespace std::chrono_literals;
using node::NodeState;

namespace {

SettingsChange lease_of(const node::ClusterMap& map, uint32_t lease_ms) {
  SettingsChange change{.of_version = map.settings.version,
                        .max_parities = map.max_parities,
                        .settings = map.settings};
  change.settings.lease_ms = lease_ms;
  return change;
}

class Changing : public ChangingFixture {
 public:
  using Told = ChangingFixture::Told<void>;

  // Asks the proxy, and does not wait.
  Told& ask(sim::SimProxy& proxy, SettingsChange change, Duration within = 60s) {
    const TimePoint until = proxy.clock().now() + within;
    return ChangingFixture::ask(proxy, proxy.decider()->change_settings(std::move(change), until));
  }
  Told& ask(sim::SimProxy& proxy, uint32_t lease_ms, Duration within = 60s) {
    return ask(proxy, lease_of(*proxy.map().current(), lease_ms), within);
  }
  // And waits.
  Result<void> change(sim::SimProxy& proxy, SettingsChange change) {
    Told& told = ask(proxy, std::move(change));
    REQUIRE(run_until([&] { return told.has_value(); }));
    return *told;
  }
  Result<void> change(sim::SimProxy& proxy, uint32_t lease_ms) {
    return change(proxy, lease_of(*proxy.map().current(), lease_ms));
  }
};
using Told = Changing::Told;

uint32_t version_of(sim::SimProxy& proxy) {
  const MapPtr map = proxy.map().current();
  return map == nullptr ? 0 : map->settings.version;
}

}  // namespace

TEST_CASE("a change of the cluster's settings makes a map, and others decide by it") {
  Changing cluster;
  auto& first = cluster.add_serving();
  const MapPtr before = first.map().current();
  CHECK(before->settings.version == 1);
  CHECK(before->settings.lease_ms == 3000);
  const SettingsChange change = lease_of(*before, 9000);
  REQUIRE(cluster.change(first, change));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  CHECK(first.map().current()->settings.version == 2);
  CHECK(first.map().current()->settings.lease_ms == 9000);
  const auto again = cluster.change(first, change);
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::kConflict);

  SECTION("who takes over from it") {
    first.kill();
    auto& second = cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }));
    CHECK(second.map().current()->settings.version == 2);
    CHECK(second.map().current()->settings.lease_ms == 9000);
  }
  SECTION("it waits for a silent node as long as that may serve") {
    cluster.ask(first, 1500);
    cluster.node(4).kill(/*silent=*/true);
    const TimePoint from = cluster.events().now();
    REQUIRE(cluster.run_until([&] { return state_of(first, 4) == NodeState::kSuspect; }));
    CHECK(cluster.events().now() - from > 5s);
  }
  SECTION("a takeover waits for the longest lease") {
    cluster.ask(first, 1500);
    const uint32_t number = first.decider()->status().epoch.number;
    // All but one have the map, which therefore is not served, and the decider dies.
    cluster.node(4).kill(/*silent=*/true);
    cluster.run_for(50ms);
    first.kill();
    CHECK(cluster.node(0).is_up());
    const TimePoint from = cluster.events().now();
    auto& second = cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return second.map().current() != nullptr; }));
    CHECK(second.map().current()->epoch.number > number);
    CHECK(cluster.events().now() - from >= 18s);
  }
}

TEST_CASE("a heartbeat that gets shorter is kept at once") {
  Changing cluster;
  cluster.decider_settings.heartbeat = 10s;
  cluster.decider_settings.suspect_after = 30s;
  cluster.decider_settings.lease = 60s;
  auto& first = cluster.add_serving();
  SettingsChange change = lease_of(*first.map().current(), 3000);
  change.settings.heartbeat_ms = 100;
  change.settings.suspect_after_ms = 1000;
  const Told& changed = cluster.ask(first, change);
  REQUIRE(cluster.run_until([&] { return changed.has_value(); }, 1s));
  REQUIRE(version_of(first) == 2);
  for (int i = 0; i < 100; ++i) {
    cluster.run_for(100ms);
    REQUIRE(first.map().current() != nullptr);
    CHECK(cluster.get(first, "no key") == "<miss>");
  }
}

TEST_CASE("a change that is none is refused or makes no map") {
  Changing cluster;
  auto& first = cluster.add_serving();
  const MapPtr map = first.map().current();
  SettingsChange change = lease_of(*map, map->settings.lease_ms);
  CHECK(cluster.change(first, change));
  CHECK(first.decider()->status().epoch == map->epoch);
  change.settings.lease_ms = 9000;
  const auto refuses = [&](SettingsChange wrong) {
    const auto done = cluster.change(first, std::move(wrong));
    return !done && done.error().code == ErrorCode::kInvalid;
  };
  change.max_parities = 0;
  CHECK(refuses(change));
  change.max_parities = 9;
  CHECK(refuses(change));
  change.max_parities = 1;
  change.settings.version = 0;
  CHECK(refuses(change));
  CHECK(first.decider()->status().epoch == map->epoch);
}

TEST_CASE("a change of the settings is answered when its map is served, and no sooner") {
  Changing cluster;
  auto& first = cluster.add_serving();
  const uint32_t number = first.map().current()->epoch.number;
  cluster.hold_maps_back(4, first.id());
  Told& told = cluster.ask(first, 9000);
  cluster.run_for(500ms);
  REQUIRE_FALSE(told);
  CHECK(first.decider()->status().epoch.number == number + 1);
  SECTION("that very map") {
    cluster.network().set_delay_rule(nullptr);
    REQUIRE(cluster.run_until([&] { return told.has_value(); }));
    CHECK(first.map().current()->epoch.number == number + 1);
  }
  SECTION("or one that follows from it") {
    cluster.node(4).kill(/*silent=*/false);
    REQUIRE(cluster.run_until([&] { return told.has_value(); }));
    CHECK(first.map().current()->epoch.number > number + 1);
  }
  CHECK(told->has_value());
  CHECK(first.map().current()->settings.lease_ms == 9000);
  CHECK(version_of(first) == 2);
}

TEST_CASE("a change whose map is not served yet lets no other one pass") {
  Changing cluster;
  auto& first = cluster.add_serving();
  cluster.hold_maps_back(4, first.id());
  const Told& told = cluster.ask(first, 9000);
  cluster.run_for(100ms);
  const auto another = cluster.change(first, 8000);
  REQUIRE_FALSE(another);
  CHECK(another.error().code == ErrorCode::kUnavailable);
  cluster.network().set_delay_rule(nullptr);
  REQUIRE(cluster.run_until([&] { return told.has_value(); }));
  CHECK(told->has_value());
  CHECK(first.map().current()->settings.lease_ms == 9000);
}

TEST_CASE("a decider that is deposed does not know what becomes of a change") {
  Changing cluster;
  auto& first = cluster.add_serving();
  sim::SimProxy* second = nullptr;
  Told* told = nullptr;
  SECTION("whoever takes over passes over it, and gives its version to another one") {
    // Who alone gets its map, the other one does not see.
    cluster.cut_off_with_node_0(first);
    told = &cluster.ask(first, 9000, 10min);
    cluster.run_for(100ms);
    second = &cluster.add_serving();
    CHECK(version_of(*second) == 1);
    CHECK(cluster.change(*second, 8000));
    REQUIRE_FALSE(*told);
    cluster.network().mend_all();
    REQUIRE(cluster.run_until([&] { return told->has_value(); }, 1s));
    CHECK(version_of(*second) == 2);
    CHECK(second->map().current()->settings.lease_ms == 8000);
  }
  SECTION("or builds upon it") {
    cluster.network().cut(first.id(), 4);
    told = &cluster.ask(first, 9000);
    cluster.run_for(100ms);
    REQUIRE_FALSE(*told);
    second = &cluster.add_serving();
    REQUIRE(cluster.run_until([&] { return told->has_value(); }, 1s));
    CHECK(version_of(*second) == 2);
    CHECK(second->map().current()->settings.lease_ms == 9000);
    CHECK(cluster.change(*second, 8000));
    CHECK(version_of(*second) == 3);
  }
  CHECK(Changing::is_unknown(*told));
  CHECK(first.decider_has_ended());
}

TEST_CASE("a proxy that is stopped does not know what becomes of a change") {
  Changing cluster;
  auto& first = cluster.add_serving();
  cluster.network().cut(first.id(), 4);
  Told& told = cluster.ask(first, 9000);
  SECTION("at once") {}
  SECTION("when most nodes have its map") { cluster.run_for(100ms); }
  REQUIRE_FALSE(told);
  first.kill();
  CHECK(Changing::is_unknown(told));
  auto& second = cluster.add_serving();
  CHECK(version_of(second) == 2);
}

TEST_CASE("nobody waits longer for a change than he said, however rare heartbeats are") {
  Changing cluster;
  cluster.decider_settings.heartbeat = 10s;
  cluster.decider_settings.suspect_after = 30s;
  cluster.decider_settings.lease = 60s;
  auto& first = cluster.add_serving();
  cluster.hold_maps_back(4, first.id());
  Told& told = cluster.ask(first, 90'000, 2s);
  REQUIRE_FALSE(cluster.run_until([&] { return told.has_value(); }, 1900ms));
  REQUIRE(cluster.run_until([&] { return told.has_value(); }, 300ms));
  CHECK(Changing::is_unknown(told));
  // It was made, and comes.
  cluster.network().set_delay_rule(nullptr);
  CHECK(cluster.run_until([&] { return version_of(first) == 2; }));
}

TEST_CASE("a change is answered when the proxy that decides goes by it itself") {
  Changing cluster;
  auto& first = cluster.add_proxy();
  node::ClusterSettings followed;
  first.map().have_followed([&](const node::ClusterSettings& settings) { followed = settings; });
  first.start_decider(cluster.decider_settings);
  REQUIRE(cluster.run_until([&] { return followed.version == 1; }));
  first.map().follows(followed);
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  const SettingsChange change = lease_of(*first.map().current(), 9000);
  Told& told = cluster.ask(first, change, 5s);
  REQUIRE(cluster.run_until([&] { return followed.version == 2; }));
  REQUIRE(first.decider()->status().state == "serving");
  // The same once more is no change.
  SettingsChange same = change;
  same.of_version = 2;
  Told& again = cluster.ask(first, same, 5s);
  cluster.run_for(1s);
  REQUIRE_FALSE((told || again));
  SECTION("in the end") {
    first.map().follows(followed);
    REQUIRE((told && again));
    CHECK(told->has_value());
    CHECK(again->has_value());
    CHECK(version_of(first) == 2);
  }
  SECTION("or never") {
    first.map().can_not_follow("too much");
    cluster.run_for(5s);
    CHECK(Changing::is_unknown(told));
    CHECK(Changing::is_unknown(again));
  }
}

TEST_CASE("who hears that a change is served may make the next one at once") {
  Changing cluster;
  auto& first = cluster.add_serving();
  std::optional<Result<void>> flushed;
  std::vector<uint32_t> served;  // versions, as each change was answered
  Scope scope;
  scope.spawn([](sim::SimProxy& proxy, auto& out) -> Task<void> {
    out = co_await proxy.decider()->flush_all(0, proxy.clock().now() + 60s);
  }(first, flushed));
  scope.spawn([](sim::SimProxy& proxy, auto& versions) -> Task<void> {
    for (uint32_t lease_ms : {9000u, 8000u, 7000u}) {
      const auto change = lease_of(*proxy.map().current(), lease_ms);
      const auto done =
          co_await proxy.decider()->change_settings(change, proxy.clock().now() + 60s);
      CHECK(done);
      CHECK(proxy.map().current()->settings.lease_ms == lease_ms);
      versions.push_back(version_of(proxy));
    }
  }(first, served));
  REQUIRE(cluster.run_until([&] { return scope.live() == 0; }));
  CHECK(flushed->has_value());
  CHECK(first.map().current()->flush_floor > 0);
  CHECK(served == std::vector<uint32_t>{2, 3, 4});
}
