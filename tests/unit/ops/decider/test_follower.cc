#include <catch2/catch.hpp>

#include "tests/unit/ops/decider/followers.h"

using namespace elastripe;
using namespace std::chrono_literals;

TEST_CASE("a proxy that starts where nobody decides does so at once") {
  Proxies cluster;
  auto& proxy = cluster.add();
  REQUIRE(cluster.run_until([&] { return Proxies::serves(proxy); }, 500ms));
  CHECK(Proxies::decides(proxy));
}

TEST_CASE("proxies that start together form one cluster") {
  const int count = GENERATE(2, 3, 10);
  const int apart_ms = GENERATE(0, 1, 7, 60);
  Proxies cluster;
  std::deque<sim::SimProxy*> proxies;
  for (int i = 0; i < count; ++i) {
    proxies.push_back(&cluster.add());
    cluster.run_for(apart_ms * 1ms);
  }
  const auto all_serve = [&] {
    return std::ranges::all_of(proxies, [&](sim::SimProxy* proxy) {
      return Proxies::serves(*proxy) && Proxies::epoch(*proxy) == Proxies::epoch(*proxies[0]);
    });
  };
  CHECK(cluster.run_until(all_serve, 60s));
  cluster.run_for(20s);
  CHECK(std::ranges::count_if(proxies, [](auto* proxy) { return Proxies::decides(*proxy); }) == 1);
}

TEST_CASE("a proxy that starts beside a decider follows it") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  const uint32_t epoch = Proxies::epoch(first);
  auto& second = cluster.add();
  REQUIRE(cluster.run_until([&] { return Proxies::serves(second); }, 500ms));
  REQUIRE(cluster.put(first, "key", "value"));
  CHECK(cluster.get(second, "key") == "value");
  cluster.run_for(20s);
  CHECK(Proxies::decides(first));
  CHECK_FALSE(Proxies::decides(second));
  CHECK(Proxies::epoch(second) == epoch);
}

constexpr node::CapabilitySet kSettings(uint64_t{1}
                                        << static_cast<int>(node::Capability::kSettings));

TEST_CASE("a proxy that is too old for the cluster neither serves nor decides") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  auto& second = cluster.add();
  cluster.decider_settings.capabilities = node::own_capabilities().without(kSettings);
  auto& old = cluster.add();
  cluster.run_for(5s);
  CHECK(Proxies::serves(second));
  CHECK_FALSE(Proxies::serves(old));
  const decider::ClusterStatus status = old.follower()->status();
  CHECK(status.state == "waiting");
  CHECK(status.reason == "the cluster uses settings, for which this proxy is too old");
  first.kill();
  REQUIRE(cluster.run_until([&] { return Proxies::decides(second); }, 20s));
  second.kill();
  cluster.run_for(20s);
  CHECK(old.decider() == nullptr);
}

TEST_CASE("a proxy that is too old to go on leaves it to a newer one") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  first.kill();
  cluster.run_for(10s);
  cluster.decider_settings.capabilities = node::own_capabilities().without(kSettings);
  auto& old = cluster.add();
  REQUIRE(cluster.run_until([&] { return Proxies::decides(old); }, 10s));
  cluster.run_for(5s);
  CHECK(old.decider()->status().state == "waiting");
  cluster.decider_settings.capabilities = node::own_capabilities();
  auto& newer = cluster.add();
  REQUIRE(cluster.run_until([&] { return Proxies::serves(newer); }, 20s));
  REQUIRE(cluster.run_until([&] { return !Proxies::decides(old); }, 20s));
  cluster.run_for(5s);
  CHECK_FALSE(Proxies::serves(old));
  CHECK(Proxies::serves(newer));
}

TEST_CASE("a follower serves no map that uses more than it can") {
  Proxies cluster;
  node::CapabilitySet others;
  cluster.node(0).kill(/*silent=*/false);
  cluster.node(0).install_build({});
  cluster.node(0).start();
  auto& first = cluster.add_serving();
  first.decider()->know_proxies([&] { return others; });
  cluster.decider_settings.capabilities = node::own_capabilities().without(kSettings);
  auto& old = cluster.add();
  REQUIRE(cluster.run_until([&] { return Proxies::serves(old); }, 10s));
  cluster.node(0).kill(/*silent=*/false);
  cluster.run_for(2s);
  cluster.node(0).install_build(node::own_capabilities());
  cluster.node(0).start();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }, 20s));
  cluster.run_for(5s);
  CHECK(Proxies::serves(old));
  others = node::own_capabilities();
  REQUIRE(cluster.run_until([&] { return !Proxies::serves(old); }, 10s));
  cluster.run_for(5s);
  CHECK_FALSE(Proxies::serves(old));
}

TEST_CASE("a follower takes the place of a dead decider while leases run") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  auto& second = cluster.add();
  auto& third = cluster.add();
  REQUIRE(cluster.run_until([&] { return Proxies::serves(second) && Proxies::serves(third); }));
  REQUIRE(cluster.put(second, "key", "value"));
  const uint32_t epoch = Proxies::epoch(first);
  first.kill();
  const TimePoint killed = cluster.events().now();
  const Duration outage = cluster.outage(
      third, [&] { return Proxies::epoch(second) > epoch && Proxies::epoch(third) > epoch; });
  CHECK(outage == 0s);
  CHECK(cluster.events().now() - killed < cluster.decider_settings.lease);
  CHECK(Proxies::decides(second) != Proxies::decides(third));
  CHECK(cluster.get(third, "key") == "value");
}

TEST_CASE("a decider that leaves goes on until another one decides, and follows that") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  SECTION("alone") {
    first.decider()->leave();
    CHECK(cluster.outage(first, [end = cluster.events().now() + 20s, &cluster] {
      return cluster.events().now() >= end;
    }) == 0s);
    CHECK(Proxies::decides(first));
  }
  SECTION("beside a follower") {
    auto& second = cluster.add();
    REQUIRE(cluster.run_until([&] { return Proxies::serves(second); }));
    cluster.run_for(5s);
    first.decider()->leave();
    const TimePoint left = cluster.events().now();
    CHECK(cluster.outage(first, [&] {
      return Proxies::decides(second) && cluster.serves_whole(second) &&
             Proxies::epoch(first) == Proxies::epoch(second);
    }) == 0s);
    CHECK(cluster.events().now() - left < 2s);
    CHECK_FALSE(Proxies::decides(first));
  }
}

TEST_CASE("a follower that was stopped for a while deposes nobody") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  CHECK(cluster.outage_after_stop(second) == 0ms);
  CHECK(Proxies::decides(first));
  CHECK_FALSE(Proxies::decides(second));
  CHECK(Proxies::serves(second));
}

TEST_CASE("a decider that was stopped for a while, and is not missed, serves on") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  CHECK(cluster.outage_after_stop(first) == 0ms);
  CHECK(Proxies::decides(first));
}

// Its file is of the first day.
TEST_CASE("who begins to decide goes on to find the nodes of the map that it serves by") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  auto settings = cluster.decider_settings;
  settings.nodes.pop_back();
  auto& second = cluster.add_proxy();
  second.follow_by(settings, /*may_decide=*/true);
  REQUIRE(cluster.run_until([&] { return Proxies::serves(second); }));
  REQUIRE(second.map().members()->nodes.size() == 5);
  first.kill();
  REQUIRE(cluster.run_until([&] {
    CHECK(second.map().members()->nodes.size() == 5);
    return Proxies::decides(second) && Proxies::epoch(second) > 1;
  }));
}

TEST_CASE("a decider that reaches a minority of the nodes is replaced by who reaches the most") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  for (node::NodeId id = 0; id < 3; ++id) cluster.network().cut(first.id(), id);
  REQUIRE(cluster.run_until([&] { return Proxies::decides(second); }, 20s));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }, 20s));
  for (node::NodeId id = 0; id < 3; ++id) cluster.network().mend(first.id(), id);
  REQUIRE(cluster.run_until(
      [&] { return Proxies::epoch(first) == Proxies::epoch(second) && !Proxies::decides(first); },
      20s));
  CHECK(Proxies::decides(second));
}

TEST_CASE("a follower asks as much of few nodes as of many") {
  Proxies cluster(20);
  cluster.add_serving();
  auto& second = cluster.add_serving();
  cluster.run_for(5s);
  size_t frames = 0;
  cluster.network().set_delay_rule(
      [&](int proxy, node::NodeId, const node::RequestHeader&) -> std::optional<Duration> {
        frames += proxy == second.id();
        return std::nullopt;
      });
  cluster.run_for(10s);
  CHECK(frames <= 4 * 101);
  CHECK(frames >= 100);
  cluster.network().set_delay_rule(nullptr);
}

// Two that crashed, of which one was left out until then, look like M = 1 that crashed to who was
// not there.
TEST_CASE("who has followed builds upon nothing that is older than what was served") {
  Proxies cluster(3);
  auto& first = cluster.add_serving();
  auto& second = cluster.add();
  const auto have_excluded = [&](node::NodeId id) {
    return cluster.run_until([&] {
      const MapPtr map = second.map().current();
      return map != nullptr && !map->is_up(id) && map->is_up(1) && cluster.serves_whole(first);
    });
  };
  cluster.node(2).kill(/*silent=*/false);
  REQUIRE(have_excluded(2));
  REQUIRE(cluster.put(second, "key", "old"));
  for (const auto* proxy : {&first, &second}) cluster.network().cut(proxy->id(), 0);
  cluster.node(2).start();
  REQUIRE(have_excluded(0));
  REQUIRE(cluster.put(second, "key", "new"));

  first.kill();
  for (const size_t id : {1u, 2u}) cluster.node(id).kill(/*silent=*/false);
  cluster.network().mend(second.id(), 0);
  const auto has_begun = [&] { return Proxies::decides(second) && !Proxies::serves(second); };
  REQUIRE(cluster.run_until(has_begun));
  CHECK_FALSE(cluster.run_until([&] { return Proxies::serves(second); }));
  CHECK(second.decider()->status().reason.find("may have had a later map") != std::string::npos);
  // The others may yet be there. The operator says that they are not.
  REQUIRE(cluster.run(second.decider()->accept_loss(cluster.deadline())));
  REQUIRE(cluster.run_until([&] { return Proxies::serves(second); }));
  CHECK(cluster.get(second, "key") == "lost: every home of the key's partition crashed");
}

TEST_CASE(
    "a proxy that serves nothing just now goes back to no older map, and deposes nobody for it") {
  const bool may_decide = GENERATE(false, true);
  Proxies cluster;
  auto& first = cluster.add_serving();
  auto later = *first.map().current();
  later.epoch.number += 2;
  auto& second = cluster.add_proxy();
  second.map().serve(std::make_shared<const node::ClusterMap>(later));
  second.map().stop_serving("its leases are over");
  second.follow_by(cluster.decider_settings, may_decide);
  CHECK_FALSE(cluster.run_until([&] { return Proxies::serves(second); }, 20s));
  CHECK(second.map().reason().find("older map") != std::string::npos);
  CHECK(Proxies::decides(first));
  CHECK(Proxies::serves(first));
  // Until the others get beyond it.
  for (size_t i = 0; i < 3; ++i) {
    const uint32_t before = Proxies::epoch(first);
    cluster.node(i).kill(/*silent=*/false);
    cluster.node(i).start();
    const auto is_back = [&] {
      return Proxies::epoch(first) > before && cluster.serves_whole(first);
    };
    REQUIRE(cluster.run_until(is_back));
  }
  CHECK(cluster.run_until([&] { return Proxies::serves(second); }, 20s));
}

TEST_CASE("a follower deposes nobody where many nodes that follow each other are silent") {
  Proxies cluster(120);
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  // As of a rack, to one that sees the others.
  for (node::NodeId id = 40; id < 95; ++id) cluster.network().cut(second.id(), id);
  const auto has_gone = [&] { return Proxies::decides(second) || !Proxies::serves(second); };
  CHECK_FALSE(cluster.run_until(has_gone, 60s));
  CHECK(Proxies::decides(first));
}
