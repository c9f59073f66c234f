// Proxy: the whole process but its command line: sockets and threads.
#pragma once

#include <memory>
#include <vector>

#include "proxy/main/admin_thread.h"
#include "proxy/main/control_thread.h"
#include "proxy/main/maintenance_thread.h"
#include "proxy/main/worker.h"

namespace elastripe {

class Proxy {
 public:
  // Resolves the nodes' names and binds both ports. Errors: a line for the operator.
  static Result<std::unique_ptr<Proxy>> create(Config config);
  ~Proxy();

  uint16_t client_port() const { return client_port_; }
  uint16_t admin_port() const { return admin_port_; }

  void start();
  // Stops accepting, lets commands end or cancels them, and returns when all threads have ended.
  void shut_down();

 private:
  Proxy(Config config, std::vector<NodeAddress> addresses, std::shared_ptr<Resolver> resolver,
        Fd client_socket, Fd admin_socket);
  void describe();

  uint16_t client_port_;
  uint16_t admin_port_;
  ProxyShared shared_;
  std::vector<std::unique_ptr<Worker>> workers_;
  MaintenanceThread maintenance_;
  ControlThread control_;
  AdminThread admin_;
  size_t next_worker_ = 0;  // of the accepting worker's thread
};

}  // namespace elastripe
