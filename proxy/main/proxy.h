// Proxy: the whole process but its command line: sockets and threads.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
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

  // What is in force. Any thread.
  ConfigPtr config() const { return config_.load(); }
  uint16_t client_port() const { return client_port_; }
  uint16_t admin_port() const { return admin_port_; }

  void start();
  // Takes what can change of the configuration, and the files of credentials that it names. Returns
  // when all threads follow it. What is the cluster's it takes for what the cluster would have, if
  // that has no such settings; else it is overruled. An error changes nothing.
  struct Reloaded {
    ConfigChange change;
    std::vector<std::string> overruled;  // as of proxy/main/cluster_config.h
  };
  Result<Reloaded> reload(const Config& wanted);
  // From now on it says that it is not ready; it serves all the same.
  void announce_shutdown();
  // Takes no more connections, lets commands end for so long, cancels the rest, and returns when
  // all threads have ended.
  void shut_down(Duration wait);
  // Any thread: shut_down() waits no longer.
  void hurry_shutdown();
  // Any thread: nor until another proxy decides in place of this one.
  void wait_for_no_decider();

 private:
  // What listens for clients: the first, and the further ones in their order.
  struct ClientSockets {
    Fd first;
    std::vector<Fd> others;
  };
  Proxy(Config config, std::unique_ptr<Credentials> credentials, std::vector<NodeAddress> addresses,
        std::shared_ptr<Resolver> resolver, ClientSockets client_sockets, Fd admin_socket);
  void accept_from(Fd socket, const ListenConfig& listen);
  // Control thread: whether it could follow these settings of a cluster; and that it has to.
  Result<void> check_cluster(const node::ClusterSettings& settings);
  Result<void> follow_cluster(const node::ClusterSettings& settings);
  Result<ConfigChange> change_to(const Config& file, const node::ClusterSettings& cluster) const;
  void spread(const Config& config, std::function<void()> done);
  void describe();
  StatPairs settings() const;

  uint16_t client_port_;
  uint16_t admin_port_;
  ProxyShared shared_;
  Published<Config> config_;
  std::mutex changing_;            // of the configuration
  Config file_;                    // as the file says
  node::ClusterSettings cluster_;  // that count in place of the file's; version 0: none do
  std::vector<std::unique_ptr<Worker>> workers_;
  MaintenanceThread maintenance_;
  ControlThread control_;
  AdminThread admin_;
  size_t next_worker_ = 0;  // of the accepting worker's thread
};

}  // namespace elastripe
