// Changes of the settings of a cluster, and what follows from them.
#include <catch2/catch.hpp>

#include "tests/unit/ops/cluster_fixture.h"

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

}  // namespace

TEST_CASE("a change of the cluster's settings makes a map, and others decide by it") {
  ClusterFixture cluster(5, "rs:2,1");
  auto& first = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  const MapPtr before = first.map().current();
  CHECK(before->settings.version == 1);
  CHECK(before->settings.lease_ms == 3000);
  const SettingsChange change = lease_of(*before, 9000);
  REQUIRE(first.decider()->change_settings(change));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  CHECK(first.map().current()->settings.version == 2);
  CHECK(first.map().current()->settings.lease_ms == 9000);
  const auto again = first.decider()->change_settings(change);
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
    REQUIRE(first.decider()->change_settings(lease_of(*first.map().current(), 1500)));
    cluster.node(4).kill(/*silent=*/true);
    const TimePoint from = cluster.events().now();
    REQUIRE(cluster.run_until([&] { return state_of(first, 4) == NodeState::kSuspect; }));
    CHECK(cluster.events().now() - from > 5s);
  }
  SECTION("a takeover waits for the longest lease") {
    REQUIRE(first.decider()->change_settings(lease_of(*first.map().current(), 1500)));
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
  ClusterFixture cluster(5, "rs:2,1");
  cluster.decider_settings.heartbeat = 10s;
  cluster.decider_settings.suspect_after = 30s;
  cluster.decider_settings.lease = 60s;
  auto& first = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  SettingsChange change = lease_of(*first.map().current(), 3000);
  change.settings.heartbeat_ms = 100;
  change.settings.suspect_after_ms = 1000;
  REQUIRE(first.decider()->change_settings(change));
  REQUIRE(cluster.run_until([&] { return first.map().current()->settings.version == 2; }, 1s));
  for (int i = 0; i < 100; ++i) {
    cluster.run_for(100ms);
    REQUIRE(first.map().current() != nullptr);
    CHECK(cluster.get(first, "no key") == "<miss>");
  }
}

TEST_CASE("a change that is none is refused or makes no map") {
  ClusterFixture cluster(5, "rs:2,1");
  auto& first = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  const MapPtr map = first.map().current();
  SettingsChange change = lease_of(*map, map->settings.lease_ms);
  CHECK(first.decider()->change_settings(change));
  CHECK(first.decider()->status().epoch == map->epoch);
  change.settings.lease_ms = 9000;
  const auto refuses = [&](SettingsChange wrong) {
    const auto done = first.decider()->change_settings(wrong);
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
