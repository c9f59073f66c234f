// ControlThread: the decider, on a loop and channels of its own, so that no data load delays a
// heartbeat.
#pragma once

#include <functional>
#include <thread>

#include "proxy/admin/cluster_metrics.h"
#include "proxy/admin/ops_metrics.h"
#include "proxy/base/published.h"
#include "proxy/main/flow_environment.h"
#include "proxy/ops/decider/decider.h"

namespace elastripe {

class ControlThread {
 public:
  explicit ControlThread(ProxyShared& shared);

  void start();
  // Any thread, while it runs: it follows the configuration from then on. `done` is called on it.
  void change_settings(ConfigPtr config, std::function<void()> done);
  // Any thread, while those run that have a client: what the decider (proxy/ops/decider/decider.h)
  // does. `done` is called on this one, once.
  void flush_all(uint32_t at, std::function<void(Result<void>)> done);
  void accept_loss(std::function<void(Result<decider::AcceptedLoss>)> done);
  void declare_dead(std::string node, std::function<void(Result<void>)> done);
  void change_members(MemberChange change, std::function<void(Result<void>)> done);
  void survey_again();
  // Also brings the metrics of the cluster and of this thread up to date.
  void tell_status(std::function<void(decider::ClusterStatus)> done);
  void begin_shutdown();  // any thread; after all others have ended
  void join();
  StoredItems stored() const { return *stored_.load(); }  // any thread

 private:
  Task<void> run_flush(uint32_t at, std::function<void(Result<void>)> done);
  Task<void> run_decider();
  Task<void> publish_stored();
  Task<void> finish();
  void shut_down();

  ProxyShared& shared_;
  FlowEnvironment environment_;
  decider::Decider decider_;
  ClusterMetrics cluster_metrics_;
  OpsMetrics ops_metrics_;
  Scope flows_;
  Scope ending_;
  bool shutting_down_ = false;
  Published<StoredItems> stored_{std::make_shared<const StoredItems>()};
  std::thread thread_;
};

}  // namespace elastripe
