// The simulated etcd, with the guarantees of the real one: one order of all writes, leases that
// end on its clock and never early, changes told in order or not at all; and its failures:
// requests and answers get lost or come late, it goes away and comes back with what it had, or as
// another one, one of its members is parted from the others, it forgets old changes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "proxy/cluster/etcd_client.h"
#include "tests/sim/trace.h"
#include "tests/support/virtual_clock.h"

namespace elastripe::sim {

// The store: each call happens at once.
class EtcdStore {
 public:
  EtcdStore(EventQueue& events, Trace& trace, uint64_t seed)
      : events_(events), trace_(trace), random_(seed) {}

  // A majority of its members is gone. What it has stays; leases count anew when it is back.
  void stop();
  void start();
  bool is_up() const { return is_up_; }
  // Its data is lost: from now on another store answers, which has nothing, and whose revisions
  // begin again. Watches of the old one say no more.
  void make_anew();
  // From now on requests of the proxy get lost, and answers to it.
  void cut(int proxy) { cuts_.insert(proxy); }
  void mend(int proxy) { cuts_.erase(proxy); }
  bool is_cut(int proxy) const { return cuts_.contains(proxy); }
  // From now on the member that the proxy asks has no leader: it refuses what needs one, or lets it
  // time out, and its watches say nothing. What they have missed they tell when it has one again.
  void part_member(int proxy) { parted_.insert(proxy); }
  void join_member(int proxy);
  bool is_parted(int proxy) const { return parted_.contains(proxy); }
  // Nothing gets lost or late any more.
  void calm() { is_calm_ = true; }
  void trouble() { is_calm_ = false; }

  etcd::Lease grant(Duration ttl);
  Result<etcd::Lease> keep_alive(etcd::LeaseId id);
  Result<void> revoke(etcd::LeaseId id);
  etcd::Found find(const std::string& prefix) const;
  Result<etcd::Revision> write(const etcd::Write& write);
  // Calls `told` once, now or when there are some, as long as it is up.
  void changes(int proxy, const std::string& prefix, etcd::Revision since,
               std::function<void(Result<etcd::Changes>)> told);

  // When the key had that value last, maybe now; TimePoint::min(): never.
  TimePoint last_had(const std::string& key, const std::string& value) const;
  // What happens to one message; nothing: it gets lost.
  std::optional<Duration> delay();
  // How a member without a leader refuses; nothing: the request times out.
  std::optional<Error> refusal();

 private:
  struct Granted {
    Duration ttl;
    TimePoint ends;
  };
  struct Waiting {
    int proxy;
    std::string prefix;
    etcd::Revision since;
    std::function<void(Result<etcd::Changes>)> told;
  };
  void put(etcd::KeyValue pair);
  void erase(const std::string& key);
  void note_end(const etcd::KeyValue& pair);
  void end_later(etcd::LeaseId id);
  void look_at(etcd::LeaseId id);
  void tell();
  Result<etcd::Changes> changes_since(const std::string& prefix, etcd::Revision since) const;

  EventQueue& events_;
  Trace& trace_;
  SimRandom random_;
  bool is_up_ = true;
  bool is_calm_ = false;
  std::set<int> cuts_;
  std::set<int> parted_;
  etcd::Revision revision_ = 1;
  etcd::Revision forgotten_ = 0;  // changes up to here
  etcd::LeaseId next_lease_ = 1;
  std::map<std::string, etcd::KeyValue> pairs_;
  std::map<etcd::LeaseId, Granted> leases_;
  std::vector<etcd::Change> history_;
  std::vector<Waiting> waiting_;
  std::map<std::pair<std::string, std::string>, TimePoint> had_;  // by key and value, until then
};

// The EtcdClient of one proxy.
class SimEtcd final : public etcd::EtcdClient {
 public:
  SimEtcd(EtcdStore& store, EventQueue& events, VirtualClock& clock, int proxy)
      : store_(store), events_(events), clock_(clock), proxy_(proxy) {}

  Task<Result<etcd::Lease>> grant(Duration ttl, TimePoint deadline) override;
  Task<Result<etcd::Lease>> keep_alive(etcd::LeaseId lease, TimePoint deadline) override;
  Task<Result<void>> revoke(etcd::LeaseId lease, TimePoint deadline) override;
  Task<Result<etcd::Found>> find(std::string prefix, TimePoint deadline) override;
  Task<Result<etcd::Revision>> write(etcd::Write write, TimePoint deadline) override;
  Task<Result<etcd::Changes>> changes(std::string prefix, etcd::Revision since,
                                      TimePoint deadline) override;

  // The proxy was killed: all calls end as cancelled.
  void cancel_calls();

 private:
  template <class T>
  struct Call;
  template <class T>
  using Answer = std::function<void(Result<T>)>;
  template <class T>
  Task<Result<T>> call(std::function<void(Answer<T>)> request, TimePoint deadline,
                       std::function<Result<T>()> at_deadline);
  // A call that is for the leader.
  template <class T>
  Task<Result<T>> call_leader(std::function<Result<T>()> request, TimePoint deadline);

  EtcdStore& store_;
  EventQueue& events_;
  VirtualClock& clock_;
  const int proxy_;
  uint64_t next_call_ = 0;
  std::map<uint64_t, std::function<void()>> cancels_;
};

}  // namespace elastripe::sim
