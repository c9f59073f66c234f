// EtcdElection: the election where etcd is at hand. Whoever has the key DECIDER begins.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/async/scope.h"
#include "proxy/cluster/etcd_client.h"
#include "proxy/ops/decider/election.h"

namespace elastripe::decider {

// Key of the nodes, for proxies that start: a line "NAME HOST:PORT DOMAIN ROLE" each.
inline constexpr std::string_view kEtcdMembers = "members";

struct EtcdElectionSettings {
  std::string prefix;  // of all its keys: "/elastripe/NAME/"
  Duration ttl = std::chrono::seconds(5);
  std::string proxy;  // who this is, in words of its own: the value of DECIDER

  friend bool operator==(const EtcdElectionSettings&, const EtcdElectionSettings&) = default;
};

// Keys, under the prefix:
//   decider   who decides, or shall; has the lease of that proxy
//   map       which map is served
//   members   its nodes
//
// That nobody decides is told by the nodes; etcd only puts those in order who wait for it:
// 1. A follower that hears of no decider takes the key, if it has none, or is of a proxy that has
//    begun since it got it, or has had it for a ttl and was to begin: whoever compares and swaps
//    first. It gives it back if it hears of one.
// 2. Who does not reach a majority of the nodes lets others go first, for a ttl.
// 3. Who decides and serves takes it from whoever has had it for a third of a ttl; one that waits
//    only if nobody has.
// 4. Without etcd nobody begins, and who decides goes on: it is not asked.
class EtcdElection final : public Election {
 public:
  // `client` outlives it.
  EtcdElection(Clock& clock, etcd::EtcdClient& client, EtcdElectionSettings settings);

  // Follows what is in etcd, until cancelled; calls end then.
  Task<void> run();

  void follow(bool starts, Duration lease) override;
  void hear_decider(Duration lease) override;
  TimePoint may_begin_at(const Vacancy& vacancy) override;
  void decide(const node::MapPtr& served, bool leaves) override;
  ElectionStatus status() const override;

 private:
  // The key DECIDER, as far as is known.
  struct Seat {
    std::optional<etcd::KeyValue> taken = {};  // nothing: nobody has it
    etcd::Revision revision = 0;               // since then
    TimePoint since = {};                      // when that was seen
  };

  Task<bool> look();
  void note(std::optional<etcd::KeyValue> taken, etcd::Revision revision);
  void step();
  Task<void> act();
  Task<bool> act_once();
  Task<bool> give_back();
  Task<bool> keep_lease();
  Task<bool> take_seat();
  Task<bool> publish();
  void failed(std::string& problem, const Error& error);
  void act_failed(const Error& error);
  bool wants_seat() const { return stands_ || decides_; }
  bool may_take() const;
  bool has_lease() const { return lease_.id != 0 && now() < lease_until_; }
  bool has_seat() const { return has_lease() && seat_.taken && seat_.taken->lease == lease_.id; }
  std::string key(std::string_view name) const { return settings_.prefix + std::string(name); }
  TimePoint deadline() const { return now() + settings_.ttl / 3; }
  TimePoint now() const { return clock_.now(); }

  Clock& clock_;
  etcd::EtcdClient& client_;
  const EtcdElectionSettings settings_;
  Scope scope_;
  bool over_ = false;

  // What this proxy is.
  bool stands_ = false;                     // hears of no decider
  TimePoint last_sign_ = TimePoint::min();  // of one, as it stands
  bool decides_ = false;                    // and goes on to
  node::MapPtr served_;                     // by it, as the decider

  // What is in etcd.
  bool is_known_ = false;  // the seat, and followed
  Seat seat_;
  etcd::Lease lease_;
  TimePoint lease_until_;
  TimePoint keep_after_;
  node::Epoch published_;

  bool acts_ = false;
  TimePoint act_after_;
  // The last failure; empty: it went well since.
  std::string watch_problem_;
  std::string act_problem_;
};

}  // namespace elastripe::decider
