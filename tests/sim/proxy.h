// A simulated proxy: the real flows with a context of their own, in a process that can be paused
// and killed; and, if it is asked to be one, the real decider.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "proxy/ops/decider/correspondence.h"
#include "proxy/ops/decider/decider.h"
#include "proxy/ops/decider/follower.h"
#include "proxy/ops/decider/job_keeper.h"
#include "proxy/ops/decider/last_decider.h"
#include "proxy/ops/jobs/recycler.h"
#include "proxy/ops/jobs/repairer.h"
#include "proxy/ops/objects/outcome.h"
#include "tests/sim/etcd.h"
#include "tests/sim/job_runner.h"
#include "tests/sim/network.h"

namespace elastripe::sim {

struct ProxyMemory {
  uint64_t staged_bytes = 64 << 10;
  uint64_t read_bytes = 64 << 10;  // early and in turn, each
  uint64_t decode_bytes = 8 << 10;
};

class SimProxy {
 public:
  SimProxy(int id, EventQueue& events, Network& network, uint64_t seed, const PoolTable& pools,
           const OpsSettings& settings, const ProxyMemory& memory = {}, Duration wall_lead = {});

  int id() const { return id_; }
  Duration wall_lead() const { return wall_lead_; }  // by which its clock is ahead since its start
  OpsContext& ops() { return data_.ops; }
  MapView& map() { return map_; }
  const MapView& shown_map() const { return map_; }
  VirtualClock& clock() { return clock_; }

  // Before it follows or decides: elections are by etcd.
  void elect_by(EtcdStore& store, Duration ttl);
  // `begins` is called when it begins to decide, as nobody else does.
  void watch_beginnings(std::function<void()> begins) { begins_ = std::move(begins); }
  // Before it follows or decides: it goes by the settings of a map only after up to so long, as a
  // process does whose threads have to take them.
  void take_settings(Duration most);
  bool goes_by(const node::ClusterSettings& settings) const {
    return !takes_settings_ || (settings.version == taken_.version && settings.text == taken_.text);
  }
  std::string etcd_name() const { return fmt::format("proxy {}", id_); }
  // Makes maps from now on.
  void start_decider(const decider::DeciderSettings& settings);
  decider::Decider* decider() { return decider_.get(); }
  const decider::Follower* follower() const { return follower_.get(); }
  node::CapabilitySet build() const {
    return follows_by_ ? follows_by_->capabilities : node::own_capabilities();
  }
  // Learns from the nodes which map is served, from now on; while it decides it makes them.
  // `may_decide`: it does so when nobody else does.
  void follow_by(const decider::DeciderSettings& settings, bool may_decide);
  // Tells others of itself, and does what they ask of it while it decides, from now on.
  void correspond(Duration period);
  decider::Correspondence* letters() { return letters_ ? &*letters_ : nullptr; }
  // Before it corresponds: runs jobs while it decides, and goes on with those of others.
  void run_jobs() { runner_.emplace(clock_, jobs_, flows_); }
  const jobs::JobBook& jobs() const { return jobs_; }
  bool has_ended(const jobs::ClusterJob& job) const { return runner_ && runner_->has_ended(job); }
  // It does it, or has it done if it corresponds, as one that is asked by its admin interface.
  // `done` is called once, unless the process dies.
  void do_task(decider::DeciderTask task, std::function<void(decider::DeciderAnswer)> done);
  // Folds update logs from now on.
  void start_recycler(const jobs::RecyclerSettings& settings);
  // Repairs from now on.
  void start_repairer(const jobs::RepairSettings& settings);
  jobs::Repairer* repairer() { return repairer_ ? &*repairer_ : nullptr; }
  bool decider_has_ended() const { return decider_ended_; }
  bool is_forced() const { return forced_; }  // it gives up whoever is silent

  bool is_alive() const { return !clock_.cancelled(); }
  void pause() { clock_.pause(); }
  void resume() { clock_.resume(); }
  // Every wait of its flows ends as cancelled, at once; frames that left are on their way.
  void kill();
  // Nothing of it is running any more.
  bool is_quiet() const;

  OpsCounters counters() const;

 private:
  // What a worker thread owns: one for the clients' operations, one for the decider.
  struct Worker {
    Worker(SimProxy& proxy, Network& network, const PoolTable& pools, const OpsSettings& settings,
           const ProxyMemory& sizes);
    SimTransport nodes;
    IdSource ids;
    RecordCache cache;
    KeyLocks locks;
    MemoryBudgets memory;
    Scope background;
    OpsContext ops;
  };
  Task<void> run_decider();
  void end_decider();
  Task<void> run_task(decider::DeciderTask task, std::function<void(decider::DeciderAnswer)> done);
  Task<void> run_follower();
  Task<void> look_at_deciders();
  void look_at_decider();
  void know_proxies();
  uint32_t decides_as() const;
  Task<decider::DeciderAnswer> perform(decider::DeciderTask task, TimePoint deadline);

  const int id_;
  const Duration wall_lead_;
  EventQueue& events_;
  VirtualClock clock_;
  SimRandom random_;
  MapView map_;
  Worker data_;
  Worker control_;
  std::optional<SimEtcd> etcd_;
  std::unique_ptr<decider::Election> election_;
  decider::LastDecider last_decider_;
  std::function<void()> begins_;
  std::shared_ptr<decider::Decider> decider_;
  std::optional<decider::DeciderSettings> follows_by_;
  bool may_decide_ = false;
  bool takes_settings_ = false;
  node::ClusterSettings asked_, taken_;
  std::shared_ptr<decider::Follower> follower_;
  jobs::JobBook jobs_;
  jobs::SharedWork work_;
  std::optional<SimJobRunner> runner_;
  std::optional<decider::Correspondence> letters_;
  std::optional<decider::JobKeeper> keeper_;
  std::optional<jobs::Recycler> recycler_;
  std::optional<jobs::Repairer> repairer_;
  bool decider_ended_ = false;
  bool forced_ = false;
  Scope flows_;
};

}  // namespace elastripe::sim
