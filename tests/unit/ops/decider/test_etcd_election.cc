#include <catch2/catch.hpp>
#include <list>
#include <optional>
#include <string>

#include "proxy/ops/decider/etcd_election.h"
#include "tests/sim/etcd.h"

using namespace elastripe;
using namespace std::chrono_literals;
using decider::EtcdElection;
using decider::EtcdElectionSettings;

namespace {

constexpr Duration kTtl = 5s;
constexpr Duration kHeartbeat = 100ms;
constexpr Duration kSoon = 500ms;  // some heartbeats and messages
constexpr Duration kLease = 4s;    // of a decider, which this election does not look at

// One that tells its election every heartbeat what the nodes told it, as a proxy does.
class Proxy {
 public:
  Proxy(sim::EtcdStore& store, EventQueue& events, int id, const std::string& name)
      : clock_(events),
        etcd_(store, events, clock_, id),
        election_(clock_, etcd_, EtcdElectionSettings{.prefix = "/e/", .ttl = kTtl, .proxy = name}),
        id_(id),
        name_(name) {
    election_.follow(/*starts=*/true, kLease);
    scope_.spawn(election_.run());
    tick();
  }

  // A decider, from the next heartbeat on.
  void hear_decider() { role_ = Role::kHears; }
  // None, since now.
  void stand(bool has_majority = true) {
    role_ = Role::kStands;
    vacancy_ = {.since = clock_.now(), .has_majority = has_majority};
  }
  // Follows no more; null: it serves nothing yet.
  void decide(node::MapPtr served) {
    role_ = Role::kDecides;
    served_ = std::move(served);
    leaves_ = false;
  }
  void leave() { leaves_ = true; }
  // It decided, and does not any more.
  void follow() {
    role_ = Role::kHears;
    election_.follow(/*starts=*/false, kLease);
  }
  void beat() {
    if (role_ == Role::kHears) election_.hear_decider(kLease);
    if (role_ == Role::kStands) (void)begins_at();
    if (role_ == Role::kDecides) election_.decide(served_, leaves_);
  }
  TimePoint begins_at() { return election_.may_begin_at(vacancy_); }
  bool may_begin() { return begins_at() <= clock_.now(); }

  decider::ElectionStatus status() const { return election_.status(); }
  const std::string& name() const { return name_; }
  int id() const { return id_; }
  void kill() {
    clock_.cancel();
    etcd_.cancel_calls();
  }
  bool is_quiet() const { return scope_.live() == 0; }

 private:
  enum class Role { kHears, kStands, kDecides };
  void tick() {
    beat();
    (void)clock_.post(clock_.now() + kHeartbeat, [this] { tick(); });
  }

  VirtualClock clock_;
  sim::SimEtcd etcd_;
  EtcdElection election_;
  Scope scope_;
  const int id_;
  const std::string name_;
  Role role_ = Role::kHears;
  EtcdElection::Vacancy vacancy_;
  node::MapPtr served_;
  bool leaves_ = false;
};

// Proxies "a", "b" and so on, and an etcd of which nothing gets lost.
class Elections {
 public:
  Elections() : events_(1), trace_(events_, /*on=*/false), store_(events_, trace_, 1) {
    store_.calm();
  }
  ~Elections() {
    for (Proxy& proxy : proxies_) proxy.kill();
    run_until([&] { return std::ranges::all_of(proxies_, &Proxy::is_quiet); });
  }

  Proxy& add() {
    const int id = static_cast<int>(proxies_.size());
    return proxies_.emplace_back(store_, events_, id, std::string(1, static_cast<char>('a' + id)));
  }
  // It stands, and has the key.
  Proxy& add_elected() {
    Proxy& proxy = add();
    proxy.stand();
    REQUIRE(run_until([&] { return proxy.may_begin(); }, kSoon));
    return proxy;
  }
  // It decides, serves, and has the key.
  Proxy& add_decider(node::MapPtr map) {
    Proxy& proxy = add();
    proxy.decide(std::move(map));
    REQUIRE(run_until([&] { return holder() == proxy.name(); }, kSoon));
    run_for(kSoon);
    return proxy;
  }
  sim::EtcdStore& store() { return store_; }
  TimePoint now() const { return events_.now(); }

  // True if the condition came true in time.
  template <class Condition>
  bool run_until(Condition condition, Duration limit = 1min) {
    const TimePoint end = now() + limit;
    while (!condition()) {
      if (now() >= end || !events_.run_one()) return condition();
    }
    return true;
  }
  void run_for(Duration duration) {
    run_until([] { return false; }, duration);
  }
  // Whether the condition holds all the time.
  template <class Condition>
  bool holds_for(Duration duration, Condition condition) {
    return !run_until([&] { return !condition(); }, duration);
  }

  std::optional<etcd::KeyValue> pair(const std::string& key) const {
    for (etcd::KeyValue& found : store_.find("/e/" + key).pairs) {
      if (found.key == "/e/" + key) return found;
    }
    return std::nullopt;
  }
  std::string value(const std::string& key) const {
    const auto found = pair(key);
    return found ? found->value : "";
  }
  // Etcd forgets what has changed until now.
  void compact() {
    const etcd::Revision newest = store_.find("/e/").revision;
    bool is_remembered = true;
    store_.trouble();
    while (is_remembered) {
      const etcd::KeyValue other{.key = "/other", .value = "", .lease = 0, .revision = 0};
      (void)store_.write({.guard = "/nobody", .guard_revision = 0, .pairs = {other}});
      // Were it there still, what was written last would be told at once.
      store_.changes("/", newest, [&](const auto& told) { is_remembered = told.has_value(); });
    }
    store_.calm();
  }
  // Who has the key, as etcd has it; empty: nobody.
  std::string holder() const { return value("decider"); }

 private:
  EventQueue events_;
  sim::Trace trace_;
  sim::EtcdStore store_;
  std::list<Proxy> proxies_;
};

node::MapPtr map_of(uint32_t epoch) {
  auto map = std::make_shared<node::ClusterMap>();
  map->cluster_id = 0xab;
  map->epoch = {.number = epoch, .decider = 7, .map_hash = 1000 + epoch};
  map->settings.version = 3;
  map->partitions.resize(2);
  const auto add = [&](const char* host, uint16_t port, node::NodeRole role) {
    const auto id = static_cast<node::NodeId>(map->nodes.size());
    node::NodeInfo& info = map->nodes.emplace_back();
    info.id = id;
    info.name = "node-" + std::to_string(id);
    info.host = host;
    info.port = port;
    info.domain = "rack-" + std::to_string(id);
    info.role = role;
  };
  add("10.0.0.1", 7001, node::NodeRole::kMember);
  add("10.0.0.2", 7002, node::NodeRole::kRemoved);
  add("fd00::3", 7003, node::NodeRole::kDraining);
  add("host.example", 7004, node::NodeRole::kMember);
  return map;
}
std::string text_of_map(uint32_t epoch) {
  return "cluster 00000000000000ab epoch " + std::to_string(epoch) + " settings 3 partitions 2";
}

}  // namespace

TEST_CASE("of those who stand, the one that has the key begins, and no other", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  Proxy& b = etcd.add();
  SECTION("one after the other") {
    a.stand();
    REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
    CHECK(etcd.holder() == "a");
    b.stand();
  }
  SECTION("at once") {
    a.stand();
    b.stand();
    REQUIRE(etcd.run_until([&] { return etcd.holder() != ""; }, kSoon));
    etcd.run_for(kSoon);
  }
  const bool is_a = etcd.holder() == "a";
  Proxy& first = is_a ? a : b;
  Proxy& second = is_a ? b : a;
  CHECK(etcd.holds_for(kTtl - 3 * kSoon, [&] {
    return etcd.holder() == first.name() && first.may_begin() &&
           second.begins_at() == TimePoint::max();
  }));
  for (const Proxy* proxy : {&a, &b}) {
    CHECK(proxy->status() ==
          decider::ElectionStatus{.by = "etcd", .elected = first.name(), .problem = ""});
  }
}

TEST_CASE("who hears of a decider wants no key, and gives back the one that it has", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.holder() == "a"; }));
  a.hear_decider();
  REQUIRE(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.holder() == ""; }));
  CHECK(b.status().elected == "");
}

TEST_CASE("who has decided and follows gives the key back", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  a.follow();
  CHECK(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
  CHECK(etcd.holds_for(kTtl, [&] { return etcd.holder() == ""; }));
  // And what it served is not its business any more, were it elected again.
  const auto map = etcd.pair("map");
  REQUIRE(map.has_value());
  a.stand();
  REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
  CHECK(etcd.holds_for(kTtl, [&] { return etcd.pair("map") == map; }));
}

TEST_CASE("who has the key and does not begin is displaced once it has had it for a ttl",
          "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  Proxy& b = etcd.add();
  a.stand();
  REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
  const TimePoint taken = etcd.now();
  b.stand();
  CHECK(etcd.holds_for(kTtl - kSoon,
                       [&] { return etcd.holder() == "a" && b.begins_at() == TimePoint::max(); }));
  CHECK(etcd.run_until([&] { return b.may_begin(); }, 2 * kSoon));
  CHECK(etcd.holder() == "b");
  CHECK(etcd.now() - taken >= kTtl - kHeartbeat);
  // The other one learns of it, and has its turn a ttl later.
  etcd.run_for(kHeartbeat);
  CHECK(a.begins_at() == TimePoint::max());
  CHECK(etcd.holds_for(kTtl - kSoon, [&] { return etcd.holder() == "b"; }));
  CHECK(etcd.run_until([&] { return a.may_begin(); }, 2 * kSoon));
}

TEST_CASE("who comes later counts the ttl of whoever has the key from then on", "[etcd]") {
  Elections etcd;
  etcd.add_elected();
  etcd.run_for(3 * kTtl);
  Proxy& b = etcd.add();
  b.stand();
  CHECK(etcd.holds_for(kTtl - kSoon, [&] { return etcd.holder() == "a"; }));
  CHECK(etcd.run_until([&] { return b.may_begin(); }, 2 * kSoon));
}

TEST_CASE("the ttl of whoever has the key goes on while etcd is away", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  Proxy& b = etcd.add();
  a.stand();
  REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
  b.stand();
  etcd.run_for(kTtl - 4 * kSoon);
  etcd.store().stop();
  etcd.run_for(kSoon);
  etcd.store().start();
  etcd.run_for(2 * kSoon);
  CHECK(etcd.holder() == "a");
  CHECK(etcd.run_until([&] { return b.may_begin(); }, 3 * kSoon));
}

TEST_CASE("who lacks a majority of the nodes lets others go first, for a ttl", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  a.stand(/*has_majority=*/false);
  SECTION("and stands then, if there is nobody") {
    CHECK(etcd.holds_for(kTtl - kHeartbeat,
                         [&] { return etcd.holder() == "" && a.begins_at() == TimePoint::max(); }));
    CHECK(etcd.run_until([&] { return a.may_begin(); }, kSoon));
  }
  SECTION("and another one that has it is the first") {
    etcd.run_for(kTtl - kSoon);
    Proxy& b = etcd.add_elected();
    CHECK(etcd.holds_for(kTtl - kSoon, [&] { return etcd.holder() == "b"; }));
    CHECK(b.may_begin());
    CHECK(a.begins_at() == TimePoint::max());
  }
}

TEST_CASE("who no longer reaches a majority of the nodes gives the key back", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  a.stand(/*has_majority=*/false);
  CHECK(a.begins_at() == TimePoint::max());
  CHECK(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
  CHECK(a.begins_at() == TimePoint::max());
}

TEST_CASE("who decides and serves takes the key from whoever has it", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  etcd.run_for(kSoon);
  b.decide(map_of(5));
  // Not at once: two of which each serves a cluster would take it from each other all the time.
  CHECK(etcd.holds_for(kTtl / 3 - 3 * kSoon, [&] { return etcd.holder() == "a"; }));
  CHECK(etcd.run_until([&] { return etcd.holder() == "b"; }, kTtl));
  etcd.run_for(kHeartbeat);
  CHECK(a.begins_at() == TimePoint::max());
  CHECK(a.status().elected == "b");
}

TEST_CASE("who decides and serves nothing yet takes the key only if nobody has it", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  b.stand();
  etcd.run_for(kSoon);
  b.decide(nullptr);
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.holder() == "a"; }));
  a.hear_decider();
  CHECK(etcd.run_until([&] { return etcd.holder() == "b"; }, kSoon));
}

TEST_CASE("a decider that leaves gives the key back at once, and takes it no more", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  Proxy& b = etcd.add();
  etcd.run_for(kSoon);
  a.leave();
  REQUIRE(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
  CHECK(etcd.holds_for(2 * kTtl, [&] { return etcd.holder() == ""; }));
  // Other keys are left, but who comes now sees that nobody has this one.
  const Proxy& c = etcd.add();
  etcd.run_for(kSoon);
  CHECK(c.status().elected == "");
  b.stand();
  CHECK(etcd.run_until([&] { return b.may_begin(); }, kSoon));
}

TEST_CASE("the key stays as long as its proxy wants it", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  SECTION("that stands") { a.stand(); }
  SECTION("that decides") { a.decide(map_of(5)); }
  SECTION("that decides, and serves nothing") { a.decide(nullptr); }
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, kSoon));
  const auto taken = etcd.pair("decider");
  CHECK(taken->lease != 0);
  CHECK(etcd.holds_for(20 * kTtl, [&] { return etcd.pair("decider") == taken; }));
  CHECK(a.status().problem == "");
}

TEST_CASE("the key of a proxy that dies goes with its lease", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  b.decide(nullptr);
  etcd.run_for(2 * kTtl);
  REQUIRE(etcd.holder() == "a");
  a.kill();
  CHECK(etcd.run_until([&] { return etcd.holder() == "b"; }, 2 * kTtl));
}

TEST_CASE("who is cut off from etcd does not begin once its key may be gone", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  etcd.store().cut(a.id());
  bool is_elected = true;
  REQUIRE(etcd.run_until(
      [&] {
        is_elected &= etcd.holder() == "a" || !a.may_begin();
        return etcd.holder() == "";
      },
      2 * kTtl));
  CHECK(is_elected);
  CHECK(etcd.holds_for(kTtl, [&] { return a.begins_at() == TimePoint::max(); }));
  etcd.store().mend(a.id());
  CHECK(etcd.run_until([&] { return a.may_begin(); }, 2 * kTtl));
  CHECK(etcd.holder() == "a");
}

TEST_CASE("a decider whose lease ended while it was cut off takes the key again", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  const auto map = etcd.pair("map");
  REQUIRE(map.has_value());
  etcd.store().cut(a.id());
  CHECK(etcd.run_until([&] { return a.status().problem != ""; }, kTtl));
  REQUIRE(etcd.run_until([&] { return etcd.holder() == ""; }, 2 * kTtl));
  etcd.run_for(kTtl);
  etcd.store().mend(a.id());
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, 2 * kTtl));
  etcd.run_for(kSoon);
  // Somebody else may have written there meanwhile.
  CHECK(etcd.pair("map")->value == map->value);
  CHECK(etcd.pair("map")->revision > map->revision);
}

TEST_CASE("a decider that is cut off for less than a ttl keeps its key", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  const auto taken = etcd.pair("decider");
  etcd.store().cut(a.id());
  REQUIRE(etcd.run_until([&] { return a.status().problem != ""; }, kTtl));
  etcd.store().mend(a.id());
  CHECK(etcd.run_until([&] { return a.status().problem == ""; }, 2 * kSoon));
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.pair("decider") == taken; }));
}

TEST_CASE("a decider whose lease is taken away early gets another one", "[etcd]") {
  Elections etcd;
  const Proxy& a = etcd.add_decider(map_of(5));
  const auto taken = etcd.pair("decider");
  REQUIRE(etcd.store().revoke(taken->lease).has_value());
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, kSoon));
  CHECK(etcd.pair("decider")->lease != taken->lease);
  CHECK(a.status().problem == "");
}

TEST_CASE("a write that was done although no answer came is known by its being told", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  a.stand();
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, kSoon));
  etcd.store().cut(a.id());
  etcd.run_for(kSoon);
  CHECK(a.status().elected == "");
  etcd.store().mend(a.id());
  CHECK(etcd.run_until([&] { return a.may_begin(); }, 2 * kTtl));
  CHECK(etcd.holder() == "a");
}

TEST_CASE("without etcd nobody begins, and the status tells why", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  Proxy& b = etcd.add();
  SECTION("where nobody had the key") {
    etcd.run_for(kSoon);
    etcd.store().stop();
    a.stand();
    CHECK(etcd.holds_for(3 * kTtl, [&] { return a.begins_at() == TimePoint::max(); }));
  }
  SECTION("where it had the key, until the lease is over") {
    a.stand();
    REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
    etcd.run_for(kSoon);
    etcd.store().stop();
    etcd.run_for(kTtl);
    CHECK(etcd.holds_for(3 * kTtl, [&] { return a.begins_at() == TimePoint::max(); }));
  }
  CHECK(a.status().problem.find("etcd") != std::string::npos);
  CHECK(b.status().problem.find("etcd") != std::string::npos);
  CHECK(etcd.holds_for(3 * kTtl, [&] { return a.status().problem != ""; }));
  etcd.store().start();
  CHECK(etcd.run_until([&] { return a.may_begin(); }, 3 * kTtl));
  CHECK(etcd.run_until([&] { return b.status().elected == "a"; }, kSoon));
  CHECK(etcd.run_until([&] { return a.status().problem.empty(); }, kSoon));
  CHECK(b.status().problem == "");
}

TEST_CASE("a decider without etcd says that it can not reach it", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  CHECK(a.status().problem == "");
  etcd.store().stop();
  etcd.run_for(kTtl);
  CHECK(a.status().problem != "");
  etcd.store().start();
  CHECK(etcd.run_until([&] { return a.status().problem == "" && etcd.holder() == "a"; }, 2 * kTtl));
}

TEST_CASE("who missed changes that etcd has forgotten looks for the key anew", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  etcd.run_for(kSoon);
  REQUIRE(b.status().elected == "a");
  etcd.store().cut(b.id());
  a.hear_decider();
  etcd.run_for(kSoon);
  const Proxy& c = etcd.add_elected();
  etcd.compact();
  etcd.run_for(kSoon);
  CHECK(b.status().elected == "a");
  etcd.store().mend(b.id());
  // That is no failure.
  bool is_well = true;
  CHECK(etcd.run_until(
      [&] {
        is_well &= b.status().problem == "";
        return b.status().elected == c.name();
      },
      2 * kTtl));
  CHECK(is_well);
  // Nothing that was forgotten keeps it from following what comes after.
  REQUIRE(etcd.holder() == c.name());
  etcd.store().cut(c.id());
  CHECK(etcd.run_until([&] { return b.status().elected == ""; }, 3 * kTtl));
}

TEST_CASE("who has the key and serves publishes the map, and the nodes that are left", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  etcd.run_for(kTtl);
  CHECK_FALSE(etcd.pair("map").has_value());
  CHECK_FALSE(etcd.pair("members").has_value());
  a.decide(nullptr);
  etcd.run_for(kTtl);
  CHECK_FALSE(etcd.pair("map").has_value());
  a.decide(map_of(5));
  REQUIRE(etcd.run_until([&] { return etcd.pair("map").has_value(); }, kSoon));
  CHECK(etcd.value("map") == text_of_map(5));
  CHECK(etcd.value(std::string(decider::kEtcdMembers)) ==
        "node-0 10.0.0.1:7001 rack-0 member\n"
        "node-2 [fd00::3]:7003 rack-2 draining\n"
        "node-3 host.example:7004 rack-3 member\n");
  // They stay when the proxy goes.
  CHECK(etcd.pair("map")->lease == 0);
  CHECK(etcd.pair("members")->lease == 0);
}

TEST_CASE("a map is published once, and the next one anew", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  const auto map = etcd.pair("map");
  REQUIRE(map.has_value());
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.pair("map") == map; }));
  a.decide(map_of(6));
  CHECK(etcd.run_until([&] { return etcd.value("map") == text_of_map(6); }, kSoon));
  CHECK(etcd.pair("members")->revision == etcd.pair("map")->revision);
}

TEST_CASE("a decider that leaves has no key, and publishes no more", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  a.leave();
  etcd.run_for(kSoon);
  a.decide(map_of(6));
  a.leave();
  etcd.run_for(kTtl);
  CHECK(etcd.value("map") == text_of_map(5));
}

TEST_CASE("who has lost the key on the way does not publish", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  REQUIRE(etcd.value("map") == text_of_map(5));
  a.decide(map_of(6));
  a.beat();
  // It tries once, and leaves meanwhile, so that it does not take the key again.
  a.leave();
  a.beat();
  SECTION("with the key") {
    REQUIRE(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
    CHECK(etcd.value("map") == text_of_map(6));
  }
  SECTION("without") {
    REQUIRE(etcd.store().revoke(etcd.pair("decider")->lease).has_value());
    etcd.run_for(kTtl);
    CHECK(etcd.value("map") == text_of_map(5));
  }
}

TEST_CASE("etcd that stops while a watch is on its way is missed", "[etcd]") {
  Elections etcd;
  const Proxy& a = etcd.add_elected();
  etcd.store().stop();
  etcd.run_for(3 * kTtl);
  CHECK_FALSE(a.status().problem.empty());
}

TEST_CASE("a follower that is cut off says so", "[etcd]") {
  Elections etcd;
  const Proxy& a = etcd.add();
  etcd.run_for(kSoon);
  etcd.store().cut(a.id());
  CHECK(etcd.run_until([&] { return !a.status().problem.empty(); }, 10 * kTtl));
}

TEST_CASE("a problem goes on as long as etcd does not answer", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  etcd.store().cut(a.id());
  REQUIRE(etcd.run_until([&] { return !a.status().problem.empty(); }, kTtl));
  CHECK(etcd.holds_for(3 * kTtl, [&] { return !a.status().problem.empty(); }));
}
