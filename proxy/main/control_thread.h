// ControlThread: the decider, or while another proxy decides the follower, on a loop and channels
// of its own, so that no data load delays a heartbeat.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "proxy/admin/cluster_metrics.h"
#include "proxy/admin/ops_metrics.h"
#include "proxy/base/published.h"
#include "proxy/etcd/http_etcd.h"
#include "proxy/main/flow_environment.h"
#include "proxy/ops/decider/correspondence.h"
#include "proxy/ops/decider/decider.h"
#include "proxy/ops/decider/follower.h"
#include "proxy/ops/decider/job_keeper.h"
#include "proxy/ops/decider/last_decider.h"

namespace elastripe {

class ControlThread {
 public:
  explicit ControlThread(ProxyShared& shared);

  void start();
  // Any thread, while it runs: it follows the configuration from then on. `done` is called on it.
  void change_settings(ConfigPtr config, std::function<void()> done);
  // The thread itself: asks whether this proxy could follow them, and has it follow them.
  struct ClusterFollower {
    std::function<Result<void>(const node::ClusterSettings&)> check;
    std::function<Result<void>(const node::ClusterSettings&)> follow;
  };
  void have_followed(ClusterFollower follower);   // before start()
  void have_jobs_run(decider::JobRunner runner);  // before start()
  // Repair and scrubs, which are the deciding proxy's. Any thread may call them.
  struct Maintenance {
    std::function<std::string()> tell;  // how far they are, as DeciderFindings have it
    // Until the next scrub (Handover).
    std::function<std::optional<std::chrono::seconds>()> scrub_due_in;
    // This proxy begins to decide, and the one before it would have scrubbed in so long.
    std::function<void(Duration scrub_due_in)> take_over;
  };
  void have_maintained(Maintenance maintenance);  // before start()
  // Any thread, while it runs: all threads do, these of the cluster.
  void follows(const node::ClusterSettings& settings);
  // Any thread, while it runs: this proxy's decider does it, or the proxy's that it follows. `done`
  // is called on this thread, once. kUnavailable: nobody has done it; kUnknownOutcome: that proxy
  // has not answered; others are the decider's (proxy/ops/decider/decider.h).
  void do_task(decider::DeciderTask task, std::function<void(decider::DeciderAnswer)> done);
  void survey_again();
  // Also brings the metrics of the cluster and of this thread up to date.
  void tell_status(std::function<void(decider::ClusterStatus)> done);
  // Any thread: another proxy is to decide, as this one ends soon.
  void leave();
  // Any thread: other threads begin to end, and follow nothing any more.
  void follow_no_more();
  void begin_shutdown();  // any thread; after all others have ended, and once another one decides
  void hurry_shutdown();  // any thread: whether or not another one does
  void join();
  StoredItems stored() const { return *stored_.load(); }  // any thread

 private:
  using DeciderPtr = std::shared_ptr<decider::Decider>;

  Task<void> run_task(decider::DeciderTask task, std::function<void(decider::DeciderAnswer)> done);
  Task<decider::DeciderAnswer> perform(decider::DeciderTask task, TimePoint deadline);
  decider::ProxyCard card() const;
  uint32_t decides_as() const;
  void look_at_decider();
  void prepare_election();
  Task<void> decide_or_follow();
  void end(auto role);
  void follow(const node::ClusterSettings& settings);
  Result<void> may_change(const SettingsChange& change) const;
  DeciderPtr new_decider(const decider::DeciderSettings& settings);
  decider::ClusterStatus status() const;
  Task<void> publish_stored();
  Task<void> hand_over();
  Task<void> finish();
  void shut_down();

  ProxyShared& shared_;
  FlowEnvironment environment_;
  ClusterFollower cluster_follower_;
  Maintenance maintenance_;
  ConfigPtr config_;              // in force
  std::optional<HttpEtcd> etcd_;  // nothing: the nodes elect who decides
  std::unique_ptr<decider::Election> election_;
  decider::LastDecider last_decider_;
  DeciderPtr decider_;                           // null while it follows
  std::shared_ptr<decider::Follower> follower_;  // null while it decides
  decider::Correspondence correspondence_;
  decider::JobKeeper jobs_;
  ClusterMetrics cluster_metrics_;
  OpsMetrics ops_metrics_;
  Scope flows_;
  Scope endings_;  // of deciders and followers that this proxy was
  Scope ending_;
  bool leaves_ = false;
  node::ClusterSettings asked_;  // that it was to follow last
  bool is_unable_ = false;       // to follow the settings of the cluster: others shall decide
  bool shutting_down_ = false;
  std::atomic<bool> hurries_ = false;
  Published<StoredItems> stored_{std::make_shared<const StoredItems>()};
  std::thread thread_;
};

}  // namespace elastripe
