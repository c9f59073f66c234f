// AdminThread: the admin interface on a loop and channels of its own, so that nothing that it is
// asked for delays a heartbeat.
#pragma once

#include <functional>
#include <thread>

#include "proxy/admin/admin_server.h"
#include "proxy/main/control_thread.h"
#include "proxy/main/flow_environment.h"
#include "proxy/main/maintenance_thread.h"

namespace elastripe {

class AdminThread {
 public:
  // The other threads run until it has ended. `socket` is bound and listening.
  AdminThread(ProxyShared& shared, ControlThread& control, MaintenanceThread& maintenance,
              Fd socket);

  void start();
  // Any thread, while it runs: it follows the configuration from then on. `done` is called on it.
  void change_settings(ConfigPtr config, std::function<void()> done);
  void begin_shutdown();  // any thread
  void join();

 private:
  AdminSources sources();
  Task<decider::ClusterStatus> cluster();
  Task<Result<jobs::ScrubReport>> scrub(std::string key);
  Task<Result<decider::AcceptedLoss>> accept_loss();
  Task<Result<jobs::ClusterJob>> do_job_task(decider::DeciderTask task);
  Task<decider::DeciderAnswer> ask_decider(decider::DeciderTask task);
  Task<Result<uint32_t>> change_cluster_settings(SettingsOrder order);
  Task<Result<void>> have_done(decider::DeciderTask task);
  Task<void> finish();

  ProxyShared& shared_;
  ControlThread& control_;
  MaintenanceThread& maintenance_;
  FlowEnvironment environment_;
  AdminServer server_;
  ConfigPtr config_;  // in force
  Scope ending_;
  std::thread thread_;
};

}  // namespace elastripe
