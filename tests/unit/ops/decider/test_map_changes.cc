// Deciders tell nodes what has changed in the map, and proxies hear of it in the same way.
#include <catch2/catch.hpp>
#include <map>

#include "proxy/ops/decider/told_map.h"
#include "server-patches/node/format/map_changes.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace std::chrono_literals;

namespace {

// Counts how maps are told, and damages what it is asked to.
struct Watched : ClusterFixture {
  struct Told {
    size_t whole = 0;
    size_t changes = 0;
  };

  Watched() {
    decider_settings.partitions = 512;
    network().set_frame_rule([this](int proxy, node::NodeId id, std::string& frame) {
      const auto bytes = node::as_view(frame);
      const auto header = bytes.first<node::kHeaderBytes>();
      if (const auto request = node::decode_request_header(header)) {
        if (request->opcode != node::Opcode::kInstallMap) return;
        note(installs[id], request->args_bytes > 0, damages_installs_at == id, frame);
      } else if (const auto reply = node::decode_reply_header(header)) {
        if (reply->opcode != node::Opcode::kHello || reply->payload_bytes() == 0) return;
        const auto args =
            node::decode<node::HelloReply>(bytes.subspan(node::kHeaderBytes, reply->args_bytes));
        if (!args) return;
        note(hellos[proxy], args->is_changes, damages_hellos, frame);
      }
    });
  }
  ~Watched() { network().set_frame_rule(nullptr); }

  static void note(Told& told, bool is_changes, bool damages, std::string& frame) {
    ++(is_changes ? told.changes : told.whole);
    if (is_changes && damages) frame.back() = static_cast<char>(frame.back() ^ 1);
  }
  void forget() {
    installs.clear();
    hellos.clear();
  }
  static uint32_t epoch(sim::SimProxy& proxy) {
    const MapPtr map = proxy.map().current();
    return map == nullptr ? 0 : map->epoch.number;
  }
  // A map that changes little.
  void make_map(sim::SimProxy& decider) {
    const MapPtr map = decider.map().current();
    SettingsChange change{.of_version = map->settings.version,
                          .max_parities = map->max_parities,
                          .settings = map->settings};
    ++change.settings.lease_ms;
    REQUIRE(run(decider.decider()->change_settings(change, deadline())));
    REQUIRE(epoch(decider) > map->epoch.number);
  }
  sim::SimProxy& add_follower() {
    sim::SimProxy& proxy = add_proxy();
    proxy.follow_by(decider_settings, /*may_decide=*/true);
    return proxy;
  }

  std::map<node::NodeId, Told> installs;  // by node
  std::map<int, Told> hellos;             // by proxy
  std::optional<node::NodeId> damages_installs_at;
  bool damages_hellos = false;
};

const node::CapabilitySet kOlder = node::own_capabilities().without(
    node::CapabilitySet(uint64_t{1} << static_cast<int>(node::Capability::kMapChanges)));

}  // namespace

TEST_CASE("nodes are told the first map whole, and of others what has changed") {
  Watched cluster;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  for (node::NodeId id = 0; id < 5; ++id) {
    CHECK(cluster.installs[id].whole == 1);
    CHECK(cluster.installs[id].changes == 0);
  }
  cluster.forget();
  cluster.make_map(proxy);
  for (node::NodeId id = 0; id < 5; ++id) {
    CHECK(cluster.installs[id].whole == 0);
    CHECK(cluster.installs[id].changes == 1);
  }
  SECTION("a decider that takes over knows the map that they have") {
    proxy.kill();
    cluster.forget();
    auto& second = cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }, 60s));
    for (node::NodeId id = 0; id < 5; ++id) CHECK(cluster.installs[id].whole == 0);
  }
  SECTION("a process that comes back empty is told it whole") {
    cluster.node(2).kill(/*silent=*/false);
    REQUIRE(cluster.run_until([&] { return state_of(proxy, 2) == node::NodeState::kLost; }, 5s));
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
    cluster.forget();
    cluster.node(2).start();
    REQUIRE(cluster.run_until([&] { return state_of(proxy, 2) == node::NodeState::kUp; }, 5s));
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }, 10s));
    CHECK(cluster.installs[2].changes == 0);
    CHECK(cluster.installs[2].whole >= 1);
  }
}

TEST_CASE("a node that can not take the changes is told the whole map") {
  Watched cluster;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  cluster.forget();
  cluster.damages_installs_at = 2;
  cluster.make_map(proxy);
  CHECK(cluster.installs[2].changes == 1);
  CHECK(cluster.installs[2].whole == 1);
  CHECK(cluster.installs[3].whole == 0);
  // The next time they are tried again.
  cluster.forget();
  cluster.make_map(proxy);
  CHECK(cluster.installs[2].changes == 1);
  CHECK(cluster.installs[2].whole == 1);
}

TEST_CASE("nodes and deciders of older builds tell and are told whole maps") {
  Watched cluster;
  SECTION("a node") {
    cluster.node(1).kill(/*silent=*/false);
    cluster.node(1).install_build(kOlder);
    cluster.node(1).start();
  }
  SECTION("a decider") { cluster.decider_settings.capabilities = kOlder; }
  const bool is_decider = cluster.decider_settings.capabilities == kOlder;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  cluster.forget();
  cluster.make_map(proxy);
  CHECK(cluster.installs[1].changes == 0);
  CHECK(cluster.installs[1].whole == 1);
  CHECK(cluster.installs[2].changes == (is_decider ? 0 : 1));
}

TEST_CASE("a follower hears what has changed, and of a whole map where that does not fit") {
  Watched cluster;
  auto& first = cluster.add_follower();
  REQUIRE(cluster.run_until([&] { return Watched::epoch(first) > 0; }));
  auto& second = cluster.add_follower();
  REQUIRE(cluster.run_until([&] { return Watched::epoch(second) == Watched::epoch(first); }));
  CHECK(cluster.hellos[second.id()].whole >= 1);
  CHECK(cluster.hellos[second.id()].changes == 0);
  cluster.forget();
  cluster.damages_hellos = GENERATE(false, true);
  cluster.make_map(first);
  REQUIRE(cluster.run_until([&] { return Watched::epoch(second) == Watched::epoch(first); }));
  cluster.run_for(2s);  // others had been asked before it knew
  const Watched::Told& told = cluster.hellos[second.id()];
  CHECK(told.changes >= 1);
  CHECK(told.whole <= (cluster.damages_hellos ? told.changes : 0));
  CHECK(*second.map().current() == *first.map().current());
  // Then there is nothing left to tell.
  cluster.forget();
  cluster.run_for(5s);
  CHECK(cluster.hellos[second.id()].changes == 0);
  CHECK(cluster.hellos[second.id()].whole == 0);
}

TEST_CASE("a decider that begins hears what has changed since it was cut off") {
  Watched cluster;
  auto& first = cluster.add_follower();
  REQUIRE(cluster.run_until([&] { return Watched::epoch(first) > 0; }));
  auto& second = cluster.add_follower();
  REQUIRE(cluster.run_until([&] { return Watched::epoch(second) == Watched::epoch(first); }));
  for (node::NodeId id = 0; id < 5; ++id) cluster.network().cut(second.id(), id);
  cluster.make_map(first);
  REQUIRE(cluster.run_until([&] { return second.decider() != nullptr; }, 30s));
  cluster.forget();
  cluster.damages_hellos = GENERATE(false, true);
  const uint32_t number = Watched::epoch(first);
  first.kill();
  cluster.network().mend_all();
  REQUIRE(cluster.run_until([&] { return Watched::epoch(second) > number; }, 60s));
  const Watched::Told& told = cluster.hellos[second.id()];
  CHECK(told.changes >= 1);
  CHECK((told.whole > 0) == cluster.damages_hellos);
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(second); }, 10s));
}

TEST_CASE("a map that many nodes tell is made once") {
  ClusterFixture cluster;
  auto& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  const node::MapPtr known = proxy.map().current();
  node::ClusterMap next = *known;
  ++next.epoch.number;
  node::seal(next);
  node::HelloReply args;
  std::string payload;
  SECTION("as changes") {
    args.is_changes = true;
    payload = node::changes_between(*known, next).value();
  }
  SECTION("whole") { node::encode(next, payload); }
  std::string body;
  node::encode(args, body);
  NodeReply reply;
  reply.header.epoch = next.epoch;
  reply.header.args_bytes = static_cast<uint32_t>(body.size());
  reply.body = Buffer::copy_of(body + payload);

  std::deque<decider::Peer> peers(3);
  peers[0].found = known;
  const auto first = decider::told_map(reply, known, peers);
  REQUIRE(first);
  CHECK(**first == next);
  peers[1].found = *first;
  const auto second = decider::told_map(reply, known, peers);
  REQUIRE(second);
  CHECK(*second == *first);  // the very same
}
