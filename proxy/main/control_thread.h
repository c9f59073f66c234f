// ControlThread: the decider and the admin interface, on a loop and channels of their own, so that
// no data load delays a heartbeat.
#pragma once

#include <thread>

#include "proxy/admin/admin_server.h"
#include "proxy/admin/cluster_metrics.h"
#include "proxy/admin/ops_metrics.h"
#include "proxy/main/flow_environment.h"
#include "proxy/main/maintenance_thread.h"
#include "proxy/ops/decider.h"

namespace elastripe {

class ControlThread {
 public:
  // `admin_socket` is bound and listening.
  ControlThread(ProxyShared& shared, MaintenanceThread& maintenance, Fd admin_socket);

  void start();
  void begin_shutdown();  // any thread; after the workers and the maintenance have ended
  void join();

 private:
  AdminSources admin_sources();
  Task<Result<ScrubReport>> scrub(std::string key);
  Task<void> run_decider();
  Task<void> finish();
  void shut_down();

  ProxyShared& shared_;
  MaintenanceThread& maintenance_;
  FlowEnvironment environment_;
  Decider decider_;
  AdminServer admin_;
  ClusterMetrics cluster_metrics_;
  OpsMetrics ops_metrics_;
  Scope flows_;
  Scope ending_;
  bool shutting_down_ = false;
  std::thread thread_;
};

}  // namespace elastripe
