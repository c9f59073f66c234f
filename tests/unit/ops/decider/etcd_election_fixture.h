// Elections by an etcd on virtual time: proxies that tell their elections what the nodes told them,
// and what etcd has.
#pragma once

#include <catch2/catch.hpp>
#include <list>
#include <optional>
#include <string>

#include "proxy/ops/decider/etcd_election.h"
#include "tests/sim/etcd.h"

namespace elastripe::etcd_elections {

using namespace std::chrono_literals;
using decider::EtcdElection;
using decider::EtcdElectionSettings;

inline constexpr Duration kTtl = 5s;
inline constexpr Duration kHeartbeat = 100ms;
inline constexpr Duration kSoon = 500ms;  // some heartbeats and messages
inline constexpr Duration kLease = 4s;    // of a decider, which this election does not look at

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
    vacancy_ = {.since = clock_.now(), .has_majority = has_majority, .last_sign = last_sign_};
  }
  // Nodes tell that a decider was there a moment ago.
  void hear_sign() { last_sign_ = clock_.now(); }
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
  TimePoint last_sign_ = TimePoint::min();
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
      store_.changes(/*proxy=*/-1, "/", newest,
                     [&](const auto& told) { is_remembered = told.has_value(); });
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

inline node::MapPtr map_of(uint32_t epoch) {
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
inline std::string text_of_map(uint32_t epoch) {
  return "cluster 00000000000000ab epoch " + std::to_string(epoch) + " settings 3 partitions 2";
}

}  // namespace elastripe::etcd_elections
