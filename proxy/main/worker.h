// Worker: one thread that serves clients: its loop, its sessions and its channels to the nodes. It
// shares nothing that changes with other workers but the map and the counters.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "proxy/main/control_thread.h"
#include "proxy/main/flow_environment.h"
#include "proxy/session/listener.h"
#include "proxy/session/sessions.h"

namespace elastripe {

class Worker : private Timer {
 public:
  Worker(ProxyShared& shared, ControlThread& control, size_t index);
  ~Worker() override;

  void start();
  // Any thread, while it runs: it follows the configuration from then on. `done` is called on it.
  void change_settings(ConfigPtr config, std::function<void()> done);
  // Any thread: takes a connected client socket, of a listener with that access.
  void adopt(Fd socket, const ClientAccess& access);
  // Before start(): this worker accepts for all.
  void listen(Fd socket, std::function<void(Fd)> accepted);

  // Any other thread: accepts no more; `done` is called on the worker's.
  void stop_listening(std::function<void()> done);
  // Any thread: no new clients; running commands may take so long to end, then they are cancelled.
  void begin_shutdown(Duration wait);
  // Any thread: the wait is over now.
  void hurry_shutdown();
  void join();

 private:
  class Publisher;

  void on_timer() override { cancel_commands(); }
  void cancel_commands();
  void drain(Duration wait);
  void sessions_ended();
  Task<void> finish();
  Task<Result<void>> flush_all(uint32_t at);

  ProxyShared& shared_;
  ControlThread& control_;
  FlowEnvironment environment_;
  FlowOps ops_;
  Sessions sessions_;
  std::unique_ptr<Publisher> publisher_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Scope ending_;
  std::thread thread_;
};

}  // namespace elastripe
