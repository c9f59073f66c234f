#include <catch2/catch.hpp>
#include <memory>
#include <set>

#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/records/commit.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::decider;
using namespace std::chrono_literals;
using node::NodeState;

namespace {

// The rest is no majority.
constexpr node::NodeId kMost[] = {2, 3, 4};

// Two proxies that tell each other of themselves: the first one decides, and the second takes over
// when it is gone.
struct Successors : ClusterFixture {
  explicit Successors(sim::NodeMemory memory = {}, const char* scheme = "rs:2,1")
      : ClusterFixture(5, scheme, 1, memory) {
    first = &add();
    REQUIRE(run_until([&] { return first->map().current() != nullptr; }));
    second = &add();
    REQUIRE(run_until([&] { return second->map().current() != nullptr; }));
    REQUIRE(run_until([&] { return serves_whole(*first); }));
  }
  sim::SimProxy& add() {
    sim::SimProxy& proxy = add_proxy();
    proxy.follow_by(decider_settings, /*may_decide=*/true);
    proxy.correspond(decider_settings.heartbeat);
    return proxy;
  }
  // After the last card of the first one has come.
  void kill_first() {
    run_for(3s);
    killed_in = first->map().current();
    first->kill();
  }
  // The map that the second one has made is served.
  bool second_serves() {
    const MapPtr map = second->map().current();
    return second->decider() != nullptr && map != nullptr &&
           map->epoch.decider == second->decider()->id();
  }
  void vanish(node::NodeId id) {
    node(id).kill(/*silent=*/true);
    const std::string name = "node-" + std::to_string(id);
    REQUIRE(run_until([&] { return first->decider()->declare_dead(name).has_value(); }));
    REQUIRE(run_until(
        [&] { return state_of(*first, id) == NodeState::kLost && serves_whole(*first); }));
  }
  void lose_memory(node::NodeId id) {
    node(id).kill(/*silent=*/false);
    REQUIRE(run_until([&] { return state_of(*first, id) == NodeState::kLost; }, 10s));
    node(id).start();
    REQUIRE(run_until(
        [&] { return state_of(*first, id) == NodeState::kUp && serves_whole(*first); }, 20s));
  }
  // Stores it, and has two of its three shards go. Who has the one that is left.
  node::NodeId lose_object(const std::string& key) {
    REQUIRE(put(*first, key, std::string(1000, 'v')));
    const auto report = run(objects::inspect_object(first->ops(), key, deadline()));
    REQUIRE(report);
    const auto placement = report->record->content.segments.front().placement;
    lose_memory(placement[0]);
    lose_memory(placement[1]);
    return placement[2];
  }

  sim::SimProxy* first = nullptr;
  sim::SimProxy* second = nullptr;
  MapPtr killed_in;
};

}  // namespace

// Its machine may have come back meanwhile, as a part of somebody's majority that this one can not
// see: whoever decides next is told anew.
TEST_CASE("that a node was declared dead is for that decider only") {
  Successors cluster;
  REQUIRE(cluster.put(*cluster.first, "key", "value"));
  for (const auto id : kMost) cluster.vanish(id);
  cluster.kill_first();
  cluster.run_for(20s);
  CHECK_FALSE(cluster.second_serves());
  for (const auto id : kMost) {
    REQUIRE(cluster.run_until([&] {
      return cluster.second->decider()->declare_dead(fmt::format("node-{}", id)).has_value();
    }));
  }
  REQUIRE(cluster.run_until([&] { return cluster.second_serves(); }, 20s));
  CHECK(cluster.get(*cluster.second, "key") == "value");
}

TEST_CASE("who waits in vain for the dead follows a decider that need not wait for them") {
  Successors cluster;
  const bool has_just_started = GENERATE(false, true);
  auto* third = has_just_started ? nullptr : &cluster.add();
  REQUIRE(cluster.put(*cluster.first, "key", "value"));
  for (const auto id : kMost) cluster.vanish(id);
  cluster.kill_first();
  if (has_just_started) third = &cluster.add();
  REQUIRE(cluster.run_until([&] { return third->decider() && cluster.second->decider(); }, 20s));
  cluster.run_for(20s);
  REQUIRE_FALSE(third->decider_has_ended());
  for (const auto id : kMost) {
    REQUIRE(cluster.second->decider()->declare_dead(fmt::format("node-{}", id)).has_value());
  }
  REQUIRE(cluster.run_until([&] { return cluster.second_serves(); }, 20s));
  REQUIRE(cluster.run_until(
      [&] {
        const MapPtr map = third->map().current();
        return third->decider_has_ended() && map != nullptr &&
               map->epoch.decider == cluster.second->decider()->id();
      },
      20s));
  CHECK(cluster.get(*third, "key") == "value");
}

// A word may be wrong, and the nodes a part of another decider's majority.
TEST_CASE("that a node is declared dead counts for the majority once all who are left know") {
  Successors cluster({}, "rep:3");
  const auto declare = [&](node::NodeId id) {
    return cluster.first->decider()->declare_dead(fmt::format("node-{}", id)).has_value();
  };
  const auto serves = [&] { return cluster.first->decider()->status().state == "serving"; };
  cluster.node(3).stall();
  cluster.node(4).stall();
  REQUIRE(cluster.run_until([&] { return declare(3) && declare(4); }));
  SECTION("not before") {
    cluster.node(2).stall();
    cluster.run_for(20s);
    CHECK_FALSE(serves());
    CHECK(cluster.first->decider()->status().state == "waiting");
    SECTION("but where there is no majority without it") {
      REQUIRE(declare(2));
      // One is gone now, and two of four answer.
      cluster.run_for(20s);
      CHECK_FALSE(serves());
      REQUIRE(declare(3));
      CHECK(cluster.run_until(serves, 20s));
    }
  }
  SECTION("then two of three are enough") {
    const auto is_out = [&] { return state_of(*cluster.first, 4) == NodeState::kLost; };
    REQUIRE(
        cluster.run_until([&] { return is_out() && cluster.serves_whole(*cluster.first); }, 20s));
    const bool is_next_one = GENERATE(false, true);
    if (is_next_one) {
      // Whose map says the same from the beginning.
      cluster.kill_first();
      REQUIRE(cluster.run_until([&] { return cluster.second_serves(); }, 20s));
      std::swap(cluster.first, cluster.second);
      REQUIRE(is_out());
      REQUIRE(cluster.run_until([&] { return declare(3) && declare(4); }));
      REQUIRE(cluster.run_until([&] { return cluster.serves_whole(*cluster.first); }, 20s));
    }
    cluster.node(2).stall();
    REQUIRE(cluster.run_until(
        [&] { return state_of(*cluster.first, 2) == NodeState::kSuspect && serves(); }, 20s));
  }
}

TEST_CASE("nobody gives way to a map twice") {
  Successors cluster;
  LastDecider last(cluster.first->clock());
  node::ClusterMap map = *cluster.first->map().current();
  CHECK(last.may_give_way_to(map));
  last.give_way_to(map);
  CHECK_FALSE(last.may_give_way_to(map));
  ++map.epoch.number;
  CHECK(last.may_give_way_to(map));
  map.epoch.number = 1;
  ++map.cluster_id;
  CHECK(last.may_give_way_to(map));
}

TEST_CASE("a decider that has just begun does not take who has not answered yet for gone") {
  Successors cluster({}, "rep:3");
  cluster.node(3).stall();
  cluster.node(4).stall();
  cluster.kill_first();
  const auto declare = [&](node::NodeId id) {
    return cluster.second->decider()->declare_dead(fmt::format("node-{}", id));
  };
  REQUIRE(cluster.run_until([&] { return cluster.second->decider() != nullptr; }, 20s));
  const auto early = declare(3);
  REQUIRE_FALSE(early);
  CHECK(early.error().code == ErrorCode::kUnavailable);
  REQUIRE(cluster.run_until([&] { return declare(3) && declare(4); }, 5s));
  // Two of five.
  cluster.node(2).stall();
  cluster.run_for(20s);
  CHECK(cluster.second->decider()->status().state == "waiting");
}

TEST_CASE("who takes over gets on where something is lost, and flushes what it is asked to") {
  Successors cluster({}, "rep:2");
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) {
    REQUIRE(cluster.put(*cluster.first, key, "value"));
  }
  cluster.run_for(3s);
  for (const auto id : {node::NodeId{1}, node::NodeId{2}}) cluster.node(id).kill(/*silent=*/false);
  cluster.first->kill();
  REQUIRE(cluster.run_until([&] { return cluster.second->decider() != nullptr; }, 20s));
  Scope scope;
  std::optional<Result<void>> flushed;
  const bool flushes = GENERATE(false, true);
  if (flushes) {
    scope.spawn([](sim::SimProxy& proxy, auto& done) -> Task<void> {
      done = co_await proxy.decider()->flush_all(0, proxy.clock().now() + 60s);
    }(*cluster.second, flushed));
  }
  REQUIRE(cluster.run_until([&] { return cluster.second_serves(); }, 30s));
  CHECK(cluster.second->decider()->status().partitions_lost > 0);
  if (flushes) {
    REQUIRE(cluster.run_until([&] { return flushed.has_value(); }, 60s));
    CHECK(flushed->has_value());
    CHECK(cluster.second->map().current()->flush_floor > 0);
  }
}

namespace {

// Small nodes that are full of records when one of them dies.
struct FullSuccessors : Successors {
  FullSuccessors() : Successors({.limit_bytes = 256 << 10, .reserve_bytes = 48 << 10}) {
    for (int i = 0; i < 400; ++i) {
      const std::string key = "key" + std::to_string(i);
      records::Commit set;
      set.key = key;
      set.content.kind = node::RecordKind::kInline;
      set.content.value = std::string(6000, 'v');
      set.content.size = 6000;
      (void)run(commit_record(first->ops(), set, deadline()));
    }
    node(1).kill(/*silent=*/false);
    REQUIRE(run_until(
        [&] { return state_of(*first, 1) == NodeState::kLost && serves_whole(*first); }, 20s));
    REQUIRE(first->decider()->status().partitions_short > 0);
  }
};

}  // namespace

TEST_CASE("who takes over gives no partitions to nodes that have no room") {
  FullSuccessors cluster;
  cluster.kill_first();
  const auto handed_over = cluster.killed_in;
  REQUIRE(cluster.run_until([&] { return cluster.second_serves(); }, 8s));
  const MapPtr map = cluster.second->map().current();
  REQUIRE(map->partitions.size() == handed_over->partitions.size());
  for (size_t p = 0; p < map->partitions.size(); ++p) {
    CHECK(map->partitions[p].homes == handed_over->partitions[p].homes);
  }
  CHECK(cluster.second->decider()->status().partitions_short > 0);
  const auto status = cluster.second->decider()->status();
  CHECK(std::ranges::count(status.nodes, false, &NodeStatus::has_room) > 0);
  CHECK_FALSE(cluster.second->decider()->handover().rooms.empty());
}

TEST_CASE("who takes over shows the map that it serves by until it has its own") {
  Successors cluster;
  cluster.kill_first();
  REQUIRE(cluster.run_until([&] { return cluster.second->decider() != nullptr; }, 20s));
  const ClusterStatus status = cluster.second->decider()->status();
  CHECK(status.state == "starting");
  CHECK(status.epoch == cluster.killed_in->epoch);
  CHECK(status.cluster_id == cluster.killed_in->cluster_id);
  REQUIRE(cluster.run_until([&] { return cluster.second_serves(); }, 20s));
  CHECK(cluster.second->decider()->status().epoch.number > cluster.killed_in->epoch.number);
}

TEST_CASE("who takes over shows what the last survey counted, and accepts no loss by that") {
  Successors cluster;
  (void)cluster.lose_object("key");
  const auto status = [](sim::SimProxy& proxy) { return proxy.decider()->status(); };
  REQUIRE(cluster.run_until([&] { return status(*cluster.first).objects_lost == 1; }));
  CHECK(status(*cluster.first).can_accept_loss);
  cluster.kill_first();
  REQUIRE(cluster.run_until([&] { return cluster.second_serves(); }, 20s));
  CHECK(status(*cluster.second).objects_lost == 1);
  CHECK(cluster.second->decider()->handover().surveyed_in == cluster.killed_in->epoch.number);
  CHECK_FALSE(status(*cluster.second).can_accept_loss);
  const auto early = cluster.run(cluster.second->decider()->accept_loss(cluster.deadline()));
  REQUIRE_FALSE(early);
  CHECK(early.error().code == ErrorCode::kConflict);

  REQUIRE(cluster.run_until([&] { return status(*cluster.second).can_accept_loss; }));
  CHECK(cluster.second->decider()->handover().surveyed_in > cluster.killed_in->epoch.number);
  const auto accepted = cluster.run(cluster.second->decider()->accept_loss(cluster.deadline()));
  REQUIRE(accepted);
  CHECK(accepted->objects == 1);
  REQUIRE(cluster.run_until([&] { return status(*cluster.second).objects_lost == 0; }));
}

TEST_CASE("who takes over deletes the lost objects of which the operator has accepted that") {
  Successors cluster;
  const node::NodeId last_holder = cluster.lose_object("key");
  REQUIRE(cluster.run_until([&] { return cluster.first->decider()->status().can_accept_loss; }));
  // What deletes it is late.
  cluster.network().set_delay_rule([](int, node::NodeId, const node::RequestHeader& header) {
    const bool is_late = header.opcode == node::Opcode::kRecordApply;
    return is_late ? std::optional<Duration>(60s) : std::optional<Duration>();
  });
  REQUIRE(cluster.run(cluster.first->decider()->accept_loss(cluster.deadline())));
  cluster.run_for(3s);
  REQUIRE(cluster.first->decider()->handover().forgets_in.number != 0);
  const bool is_another_lost = GENERATE(false, true);
  cluster.kill_first();
  if (is_another_lost) cluster.node(last_holder).kill(/*silent=*/false);
  REQUIRE(cluster.run_until([&] { return cluster.second_serves(); }, 20s));
  cluster.network().set_delay_rule(nullptr);
  const auto is_gone = [&] { return cluster.get(*cluster.second, "key") == "<miss>"; };
  CHECK(cluster.run_until(is_gone, 30s) == !is_another_lost);
}

namespace {

node::MapPtr map_of(uint32_t decider) {
  auto map = std::make_shared<node::ClusterMap>();
  map->epoch = {.number = 7, .decider = decider, .map_hash = 1};
  return map;
}

ProxyCard card_with_room(node::NodeId id) {
  ProxyCard card;
  card.handover.rooms = {
      {.node = id, .incarnation = 9, .room = Room::kNone, .wait = 1s, .try_in = 1s}};
  return card;
}

}  // namespace

TEST_CASE("what the last decider told is remembered, and only of that one") {
  EventQueue events(1);
  VirtualClock clock(events);
  LastDecider last(clock);
  const auto rooms = [&] { return last.inherited().handover.rooms.size(); };
  CHECK(rooms() == 0);
  const ProxyCard card = card_with_room(3);
  last.look(map_of(5), &card);
  CHECK(last.inherited().decider == 5);
  CHECK(rooms() == 1);
  SECTION("its card is not heard of any more, and its map not served") {
    last.look(map_of(5), nullptr);
    last.look(nullptr, nullptr);
    CHECK(rooms() == 1);
  }
  SECTION("another one decides") {
    last.look(map_of(6), nullptr);
    CHECK(rooms() == 0);
    const ProxyCard other;
    last.look(map_of(6), &other);
    CHECK(last.inherited().decider == 6);
    CHECK(rooms() == 0);
  }
  SECTION("this one decided, and left its map served") {
    last.keep(8, map_of(8), {}, card_with_room(4).handover);
    last.look(map_of(8), nullptr);
    CHECK(last.inherited().handover.rooms.front().node == 4);
  }
  SECTION("this one was to decide, and did not get to a map of its own") {
    last.keep(8, map_of(5), {}, card_with_room(4).handover);
    last.look(map_of(5), nullptr);
    CHECK(rooms() == 1);
  }
}

TEST_CASE("a wall clock that was set is not believed by the next decider of the process") {
  ClusterFixture cluster;
  sim::SimProxy& proxy = cluster.add_proxy();
  LastDecider last(proxy.clock());
  proxy.clock().set_wall_clock_by(1h);
  CHECK_FALSE(last.expiry_clock().look());
  last.keep(8, nullptr, {}, {});
  CHECK_FALSE(last.expiry_clock().look());
  // One that follows has seen it, too.
  cluster.run_for(jobs::ExpiryClock::kDistrust);
  last.look(nullptr, nullptr);
  CHECK(last.expiry_clock().look());
}

namespace {

// A decider that is told of the rooms of four processes, of which the first one has ended.
struct Heir : ClusterFixture {
  Heir() {
    decider_settings.max_parities = 1;
    auto& first = add_decider();
    REQUIRE(run_until([&] { return serves_whole(first); }));
    Handover told;
    for (node::NodeId id = 0; id < 4; ++id) {
      const uint64_t process = first.decider()->status().nodes[id].process;
      told.rooms.push_back(
          {.node = id, .incarnation = process, .room = Room::kNone, .wait = 5min, .try_in = 10min});
    }
    restart(0);
    REQUIRE(run_until([&] {
      const uint64_t member = first.decider()->status().nodes[0].info.incarnation;
      return member != told.rooms[0].incarnation && serves_whole(first);
    }));
    last.keep(first.decider()->id(), nullptr, {}, told);
    first.kill();
  }
  ~Heir() {
    proxy.kill();
    run_until([&] { return scope.live() == 0; });
  }
  void take_over() {
    decider = std::make_unique<Decider>(proxy.ops(), decider_settings, election, last);
    scope.spawn([](Decider& begins) -> Task<void> {
      co_await begins.run();
      co_await begins.join();
    }(*decider));
    REQUIRE(run_until([&] { return decider->status().state == "serving"; }));
  }
  void restart(node::NodeId id) {
    node(id).kill(/*silent=*/false);
    node(id).start();
  }
  // Whose rooms it hands over.
  std::set<node::NodeId> handed_on() const {
    std::set<node::NodeId> nodes;
    for (const Handover::RoomOf& room : decider->handover().rooms) nodes.insert(room.node);
    return nodes;
  }

  sim::SimProxy& proxy = add_proxy();
  LastDecider last{proxy.clock()};
  NodesElection election{proxy.ops().random};
  std::unique_ptr<Decider> decider;
  Scope scope;
};

}  // namespace

TEST_CASE("the room of a process is handed on as long as that may be there") {
  Heir cluster;
  cluster.node(1).kill(/*silent=*/true);
  cluster.take_over();
  // Nobody knows what has become of node 1.
  CHECK(cluster.handed_on() == std::set<node::NodeId>{1, 2, 3});
  const auto status = cluster.decider->status();
  CHECK(status.nodes[0].has_room);
  CHECK_FALSE(status.nodes[2].has_room);
  SECTION("not once another one answers that had not been met") {
    cluster.node(1).start();
    CHECK(cluster.run_until([&] { return cluster.handed_on() == std::set<node::NodeId>{2, 3}; }));
  }
  SECTION("not once another one answers in its place") {
    cluster.restart(2);
    CHECK(cluster.run_until([&] { return cluster.handed_on() == std::set<node::NodeId>{1, 3}; }));
  }
}

// When the operator has the most to say, and whoever knew the cluster is gone.
TEST_CASE("a loss is accepted at any of the proxies that have all just started") {
  // One of the nodes where proxies meet is left, or none.
  const size_t gone = GENERATE(2u, 0u);
  Successors cluster({}, "rs:2,2");
  for (auto* proxy : {cluster.first, cluster.second}) proxy->kill();
  for (size_t id = gone; id < gone + 3; ++id) {
    cluster.node(id).kill(/*silent=*/false);
    cluster.node(id).start();
  }
  cluster.run_for(10s);  // until no node has a lease
  auto& third = cluster.add();
  REQUIRE(cluster.run_until([&] { return third.decider() != nullptr; }, 20s));
  auto& fourth = cluster.add();
  cluster.run_for(20s);
  REQUIRE(third.map().current() == nullptr);
  const std::string reason = third.decider()->status().reason;
  CHECK(reason.find("may have had a later map") != std::string::npos);
  REQUIRE(fourth.decider() == nullptr);
  CHECK(fourth.follower()->status().state == "waiting");
  CHECK(fourth.follower()->status().reason ==
        "the proxy that decides has no map in use yet: its status says what it waits for");
  CHECK(std::ranges::any_of(fourth.letters()->proxies(), [&](const KnownProxy& proxy) {
    return proxy.card.decides_as == third.decider()->id() && proxy.card.findings.can_accept_loss;
  }));
  std::optional<DeciderAnswer> answer;
  fourth.do_task(AcceptLoss{}, [&](DeciderAnswer done) { answer = std::move(done); });
  REQUIRE(cluster.run_until([&] { return answer.has_value(); }));
  CHECK((*answer ? "" : to_string(answer->error())) == "");
  const auto serves = [](sim::SimProxy& proxy) { return proxy.map().current() != nullptr; };
  CHECK(cluster.run_until([&] { return serves(third) && serves(fourth); }, 20s));
}
