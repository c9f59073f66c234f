#include <catch2/catch.hpp>

#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace std::chrono_literals;

namespace {

struct Proxies : ClusterFixture {
  using ClusterFixture::ClusterFixture;

  // Decides where nobody else does.
  sim::SimProxy& add() {
    sim::SimProxy& proxy = add_proxy();
    proxy.follow_by(decider_settings, /*may_decide=*/true);
    return proxy;
  }
  sim::SimProxy& add_serving() {
    sim::SimProxy& proxy = add();
    REQUIRE(run_until([&] { return serves(proxy); }));
    return proxy;
  }
  static bool decides(sim::SimProxy& proxy) {
    return proxy.is_alive() && proxy.decider() != nullptr && !proxy.decider_has_ended();
  }
  static bool serves(sim::SimProxy& proxy) { return proxy.map().current() != nullptr; }
  static uint32_t epoch(sim::SimProxy& proxy) {
    return serves(proxy) ? proxy.map().current()->epoch.number : 0;
  }
  // The time for which the proxy serves nothing, until `condition` holds.
  template <class Condition>
  Duration outage(sim::SimProxy& proxy, Condition condition) {
    Duration total{};
    TimePoint before = events().now();
    REQUIRE(run_until([&] {
      if (!serves(proxy)) total += events().now() - before;
      before = events().now();
      return condition();
    }));
    return total;
  }
  // The process is stopped for longer than leases are. What its clients have sent meanwhile is not
  // to be refused as it wakes up: for how long it serves nothing then.
  Duration outage_after_stop(sim::SimProxy& proxy) {
    proxy.pause();
    run_for(30s);
    proxy.resume();
    const TimePoint end = events().now() + 10s;
    return outage(proxy, [&] { return events().now() >= end; });
  }
};

}  // namespace

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

TEST_CASE("a proxy that has served a cluster neither forms another one nor joins it") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  const uint64_t served = second.map().current()->cluster_id;
  first.kill();
  for (size_t id = 0; id < 5; ++id) {
    cluster.node(id).kill(/*silent=*/false);
    cluster.node(id).start();
  }
  REQUIRE(cluster.run_until([&] { return Proxies::decides(second) && !Proxies::serves(second); }));
  CHECK_FALSE(cluster.run_until([&] { return Proxies::serves(second); }));
  // A process that begins has nothing to remember.
  auto& third = cluster.add_serving();
  CHECK(third.map().current()->cluster_id != served);
  cluster.run_for(20s);
  CHECK(Proxies::serves(third));
  CHECK_FALSE(Proxies::serves(second));
  CHECK(second.decider()->status().reason.find("restart it") != std::string::npos);
  // Nor does it keep others from deciding for the new one.
  third.kill();
  auto& fourth = cluster.add();
  CHECK(cluster.run_until([&] { return Proxies::serves(fourth) && Proxies::decides(fourth); }));
}

TEST_CASE("a follower learns of members that came after it") {
  Proxies cluster;
  const auto all = cluster.decider_settings.nodes;
  cluster.decider_settings.nodes.pop_back();
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  // One whose status is asked for all the time, also while some node lacks the new map yet.
  cluster.network().set_delay_rule([](int, node::NodeId to, const node::RequestHeader& header) {
    const bool is_late = header.opcode == node::Opcode::kInstallMap && to == 0;
    return is_late ? std::optional<Duration>(500ms) : std::optional<Duration>();
  });
  auto& third = cluster.add_proxy();
  decider::NodesElection election(third.ops().random);
  decider::Follower watched(third.ops(), cluster.decider_settings, election, /*starts=*/false);
  Scope scope;
  scope.spawn(
      [](decider::Follower& follower) -> Task<void> { (void)co_await follower.run(); }(watched));
  MemberChange change{.kind = MemberChange::Kind::kAdd, .node = {}};
  change.node.name = all.back().name;
  change.node.host = all.back().host;
  change.node.port = all.back().port;
  REQUIRE(cluster.run_until([&] {
    return cluster.run(first.decider()->change_members(change, cluster.deadline())).has_value();
  }));
  REQUIRE(cluster.run_until([&] {
    const MapPtr map = third.map().current();
    return watched.status().nodes.size() == all.size() && map != nullptr &&
           map->nodes.size() == all.size() && Proxies::serves(second) &&
           second.map().current()->nodes.size() == all.size();
  }));
  third.kill();
  REQUIRE(cluster.run_until([&] { return scope.live() == 0; }));
  cluster.network().set_delay_rule(nullptr);
}

// What nodes have told of the decider goes with the members that were known before.
TEST_CASE("a follower that has just learnt of other members deposes nobody") {
  Proxies cluster;
  const auto added = cluster.decider_settings.nodes.back();
  cluster.decider_settings.nodes.pop_back();
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  cluster.run_for(5s);
  // Its next answers take longer than it would have to be patient.
  constexpr Duration kLate = 800ms;
  REQUIRE(kLate > cluster.decider_settings.lease / 4);
  std::optional<TimePoint> learnt;
  cluster.network().set_delay_rule(
      [&](int proxy, node::NodeId, const node::RequestHeader&) -> std::optional<Duration> {
        const TimePoint now = cluster.events().now();
        const auto known = second.map().members()->nodes.size();
        if (!learnt && known > cluster.decider_settings.nodes.size()) learnt = now;
        const bool is_late = proxy == second.id() && learnt && now < *learnt + kLate;
        return is_late ? std::optional(kLate) : std::nullopt;
      });
  MemberChange change{.kind = MemberChange::Kind::kAdd, .node = {}};
  change.node.name = added.name;
  change.node.host = added.host;
  change.node.port = added.port;
  REQUIRE(cluster.run_until([&] {
    return cluster.run(first.decider()->change_members(change, cluster.deadline())).has_value();
  }));
  const auto has_gone = [&] { return Proxies::decides(second) || !Proxies::serves(second); };
  CHECK_FALSE(cluster.run_until(has_gone, 10s));
  REQUIRE(learnt);
  CHECK(Proxies::decides(first));
  cluster.network().set_delay_rule(nullptr);
}

TEST_CASE("who does not decide any more goes on to know the members that came while it did") {
  Proxies cluster;
  const auto added = cluster.decider_settings.nodes.back();
  cluster.decider_settings.nodes.pop_back();
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  MemberChange change{.kind = MemberChange::Kind::kAdd, .node = {}};
  change.node.name = added.name;
  change.node.host = added.host;
  change.node.port = added.port;
  REQUIRE(cluster.run_until([&] {
    return cluster.run(first.decider()->change_members(change, cluster.deadline())).has_value();
  }));
  REQUIRE(cluster.run_until(
      [&] { return second.map().members()->nodes.size() == 5 && cluster.serves_whole(first); }));
  const auto knows = [](sim::SimProxy& proxy) { return proxy.map().members()->nodes.size(); };
  const uint64_t version = first.map().members_version();
  first.decider()->leave();
  bool is_whole = true;
  REQUIRE(cluster.run_until([&] {
    is_whole &= knows(first) == 5 && knows(second) == 5;
    // It shows what the map says from the beginning.
    if (first.decider_has_ended()) {
      const decider::ClusterStatus status = first.follower()->status();
      is_whole &= status.nodes.size() == 5 && status.nodes.back().partitions_home > 0;
    }
    return first.decider_has_ended() && Proxies::epoch(first) == Proxies::epoch(second);
  }));
  cluster.run_for(5s);
  CHECK(is_whole);
  CHECK(Proxies::serves(first));
  CHECK(first.map().members_version() == version);
}

TEST_CASE("a proxy that hears of two clusters with as many nodes each waits") {
  const bool may_decide = GENERATE(false, true);
  Proxies cluster(6);
  const auto all = cluster.decider_settings;
  // One cluster has lost nodes 0 to 2, of which somebody makes another one.
  auto& second = cluster.add_serving();
  for (node::NodeId id = 0; id < 3; ++id) {
    cluster.node(id).kill(/*silent=*/false);
    REQUIRE(cluster.run_until([&] {
      return state_of(second, id) == node::NodeState::kLost && cluster.serves_whole(second);
    }));
  }
  for (node::NodeId id = 0; id < 3; ++id) {
    cluster.network().cut(second.id(), id);
    cluster.node(id).start();
  }
  cluster.decider_settings.nodes.resize(3);
  auto& first = cluster.add_serving();
  const uint32_t epochs[] = {Proxies::epoch(first), Proxies::epoch(second)};

  auto& other = cluster.add_proxy();
  other.follow_by(all, may_decide);
  CHECK_FALSE(cluster.run_until([&] { return Proxies::serves(other); }));
  const auto status =
      other.decider() != nullptr ? other.decider()->status() : other.follower()->status();
  CHECK(status.state == "waiting");
  CHECK(status.reason.contains("nodes belong to different clusters"));
  CHECK(other.map().current() == nullptr);
  for (auto* proxy : {&first, &second}) CHECK(Proxies::decides(*proxy));
  CHECK(Proxies::epoch(first) == epochs[0]);
  CHECK(Proxies::epoch(second) == epochs[1]);
  // Until one has more.
  auto& larger = GENERATE(true, false) ? first : second;
  cluster.node(&larger == &first ? 5 : 0).kill(/*silent=*/false);
  CHECK(cluster.run_until([&] { return Proxies::serves(other); }));
  REQUIRE(Proxies::serves(other));
  CHECK(other.map().current()->cluster_id == larger.map().current()->cluster_id);
  CHECK(Proxies::decides(larger));
}

// Its file says something else of the cluster than is so. It can not decide, and others can.
TEST_CASE("a proxy that has another number of partitions in its file keeps nobody from deciding") {
  const bool follows = GENERATE(false, true);
  Proxies cluster;
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  auto settings = cluster.decider_settings;
  settings.partitions *= 2;
  auto& third = cluster.add_proxy();
  if (follows) {
    third.follow_by(settings, /*may_decide=*/true);
  } else {
    third.start_decider(settings);
  }
  cluster.run_for(3s);
  const decider::ClusterStatus status = follows && third.decider() == nullptr
                                            ? third.follower()->status()
                                            : third.decider()->status();
  CHECK(status.state == "waiting");
  CHECK(status.reason == "the cluster has 16 partitions, the configuration 32");
  CHECK(third.map().reason() == status.reason);
  CHECK(Proxies::decides(third) == !follows);
  first.kill();
  const auto& times = cluster.decider_settings;
  REQUIRE(cluster.run_until([&] { return Proxies::decides(second); },
                            times.lease + 2 * times.suspect_after));
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }, 20s));
  CHECK_FALSE(Proxies::serves(third));
}

TEST_CASE("a proxy with another number of partitions decides once no node has a map any more") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  cluster.decider_settings.partitions *= 2;
  auto& second = cluster.add();
  cluster.run_for(3s);
  first.kill();
  CHECK_FALSE(cluster.run_until([&] { return Proxies::decides(second); }, 20s));
  for (size_t id = 0; id < 5; ++id) {
    cluster.node(id).kill(/*silent=*/false);
    cluster.node(id).start();
  }
  CHECK(cluster.run_until([&] { return Proxies::serves(second); }, 20s));
}

TEST_CASE("a proxy whose nodes belong to different clusters keeps nobody from deciding") {
  Proxies cluster(6);
  auto& other = cluster.add_serving();
  other.kill();
  const auto all = cluster.decider_settings;
  cluster.decider_settings.nodes.resize(3);
  for (size_t id = 0; id < 3; ++id) {
    cluster.node(id).kill(/*silent=*/false);
    cluster.node(id).start();
  }
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  auto& third = cluster.add_proxy();
  third.follow_by(all, /*may_decide=*/true);
  cluster.run_for(3s);
  REQUIRE(Proxies::decides(third));
  CHECK(third.decider()->status().reason.find("different clusters") != std::string::npos);
  first.kill();
  const auto& times = cluster.decider_settings;
  CHECK(cluster.run_until([&] { return Proxies::decides(second); },
                          times.lease + 2 * times.suspect_after));
}

// The two have some addresses in common.
TEST_CASE(
    "a decider that waits for nodes of its cluster keeps nobody in another one from deciding") {
  Proxies cluster(7);
  auto& other = cluster.add_serving();
  auto& third = cluster.add_serving();
  other.kill();
  for (const size_t id : {0u, 1u, 2u, 4u, 5u, 6u}) {
    cluster.node(id).kill(/*silent=*/false);
    cluster.node(id).start();
  }
  cluster.decider_settings.nodes.resize(3);
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  cluster.run_for(10s);
  REQUIRE((Proxies::decides(third) && !Proxies::serves(third)));
  const std::string reason = third.decider()->status().reason;
  REQUIRE(reason.find("may have had a later map") != std::string::npos);
  first.kill();
  const auto& times = cluster.decider_settings;
  CHECK(cluster.run_until([&] { return Proxies::decides(second); },
                          times.lease + 2 * times.suspect_after));
}

// What it sends gets there, and no answer comes in time.
TEST_CASE("a proxy that begins to decide, and hears of no node, keeps nobody from deciding") {
  Proxies cluster;
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  cluster.network().set_delay_rule(
      [](int proxy, node::NodeId, const node::RequestHeader&) -> std::optional<Duration> {
        return proxy == 2 ? std::optional<Duration>(5s) : std::nullopt;
      });
  auto& third = cluster.add();
  REQUIRE(third.id() == 2);
  REQUIRE(cluster.run_until([&] { return Proxies::decides(third); }));
  cluster.run_for(10s);
  first.kill();
  const auto& times = cluster.decider_settings;
  CHECK(cluster.run_until([&] { return Proxies::decides(second); },
                          times.lease + 2 * times.suspect_after));
  cluster.network().set_delay_rule(nullptr);
}

// The operator has given up elsewhere what it has served.
TEST_CASE("a follower that has served more than the nodes have says so, and decides no more") {
  Proxies cluster(3);
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
  for (const auto* proxy : {&first, &second}) cluster.network().cut(proxy->id(), 0);
  const auto has_excluded = [&] { return !first.map().current()->is_up(0); };
  REQUIRE(cluster.run_until(
      [&] { return Proxies::serves(first) && has_excluded() && cluster.serves_whole(first); }));
  for (int i = 0; i < 3; ++i) {
    const uint32_t before = Proxies::epoch(first);
    cluster.node(2).kill(/*silent=*/false);
    cluster.node(2).start();
    REQUIRE(cluster.run_until([&] {
      return Proxies::epoch(first) > before && cluster.serves_whole(first) &&
             Proxies::epoch(second) == Proxies::epoch(first);
    }));
  }
  const uint32_t served = Proxies::epoch(second);
  second.pause();
  first.kill();
  for (const size_t id : {1u, 2u}) {
    cluster.node(id).kill(/*silent=*/false);
    cluster.node(id).start();
  }
  cluster.network().mend(second.id(), 0);
  auto& third = cluster.add();
  REQUIRE(cluster.run_until([&] {
    return third.decider() != nullptr &&
           cluster.run(third.decider()->accept_loss(cluster.deadline())).has_value();
  }));
  REQUIRE(cluster.run_until([&] { return Proxies::serves(third); }));
  REQUIRE(Proxies::epoch(third) <= served);
  second.resume();
  REQUIRE(cluster.run_until([&] { return !Proxies::serves(second); }, 20s));
  cluster.run_for(5s);
  REQUIRE(Proxies::epoch(third) <= served);
  CHECK(second.map().reason() ==
        "nodes serve an older map than this proxy has: restart it if records were given up");
  CHECK(second.follower()->status().reason == second.map().reason());
  CHECK(Proxies::serves(third));
  // It would wait for what nobody has any more, and keep others from deciding.
  third.kill();
  CHECK_FALSE(cluster.run_until([&] { return Proxies::decides(second); }, 20s));
  auto& fourth = cluster.add();
  CHECK(cluster.run_until([&] { return Proxies::serves(fourth); }, 20s));
}
