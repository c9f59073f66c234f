// What those who follow know of the members, and of whose cluster they are.
#include <catch2/catch.hpp>

#include "tests/unit/ops/decider/followers.h"

using namespace elastripe;
using namespace std::chrono_literals;

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
  const MemberChange change = cluster.leave_out_last();
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
  const MemberChange change = cluster.leave_out_last();
  auto& first = cluster.add_serving();
  auto& second = cluster.add_serving();
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
