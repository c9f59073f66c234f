// A cluster of one machine, for trying, testing and measuring: nodes and proxies as processes on
// loopback that outlive the command, with everything about them in one directory:
//
//   elastripe.yaml   the proxies' configuration
//   cluster.json     what the cluster was started with
//   NAME.pid         process and start time of a node (n0, n1, ...) or of a proxy (proxy, proxy2,
//                    proxy3, ...), or of etcd
//   NAME.log         what it printed
//   etcd/            what etcd has stored, where it elects the proxy that decides
//   tls/, users      with TLS and authentication: certificates, and who may be a client
//   proxy.sock,      then: where the user who started it is served without either, at each proxy
//   proxy2.sock, ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/process.h"
#include "tools/cli/result.h"

namespace elastripe::cli {

inline constexpr const char* kProxyName = "proxy";
inline constexpr const char* kEtcdName = "etcd";
inline constexpr const char* kUsersName = "users";
inline constexpr const char* kSocketName = "proxy.sock";

struct PoolSettings {
  std::string prefix;
  std::string scheme;
  std::optional<int> inline_max_bytes;  // nothing: the proxy's default
};

struct ClusterSettings {
  int nodes = 9;
  std::string scheme = "ers:4,2,5";  // of the pool without a prefix
  std::vector<PoolSettings> pools = {};
  int proxies = 1;                    // that serve it
  int port = 11311;                   // the first proxy's; node i listens on port + 1 + i
  int memory_mb = 256;                // of each node
  int node_threads = 1;               // of each node
  int log_units = 0;                  // the same; 0: the nodes' default
  std::vector<std::string> set = {};  // KEY=VALUE, handed to the proxy
  std::string address = "127.0.0.1";
  bool etcd = false;          // one elects the proxy that decides, and is a process of the cluster
  bool tls = false;           // clients, proxy, nodes and etcd speak it
  bool auth = false;          // clients log in
  std::string programs = {};  // the directory of elastripe-node and elastripe-proxy; empty: our own
};

struct ProcessStatus {
  std::string name;
  int port = 0;
  bool running = false;
  ProcessId process;  // of the last start; pid 0 if there was none
};

class LocalCluster {
 public:
  // Refuses a directory with running processes or with files of others under the names above,
  // taken ports, and what the proxy says of the configuration, and then has changed nothing. Else
  // writes the directory's files and removes the logs and pids of its earlier cluster. Starts
  // nothing.
  static Result<LocalCluster> create(const std::filesystem::path& dir, ClusterSettings settings);
  // The cluster that was created in the directory.
  static Result<LocalCluster> open(const std::filesystem::path& dir);

  const ClusterSettings& settings() const { return settings_; }
  const std::filesystem::path& dir() const { return dir_; }
  std::vector<std::string> names() const;  // nodes, etcd, then proxies
  std::vector<std::string> proxies() const;
  // HOST:PORT of a proxy for clients, and that of its admin interface.
  std::string server(const std::string& proxy = kProxyName) const;
  std::string admin_address(const std::string& proxy = kProxyName) const;

  // Starts the processes named that do not run, and waits until nodes (and etcd) accept
  // connections and each
  // proxy says that it is ready. On failure the message ends with the tail of a log.
  Result<> start(const std::vector<std::string>& names);
  // SIGTERM and, after a while, SIGKILL; proxies first.
  Result<> stop(const std::vector<std::string>& names);
  // Stops and starts. If a proxy runs, returns once the cluster has taken the nodes among them
  // back, each as its new process; their records may be synced later.
  Result<> restart(const std::vector<std::string>& names);
  // SIGKILL; returns when the processes are gone. An error if one was not running.
  Result<> kill(const std::vector<std::string>& names);

  ProcessStatus status(const std::string& name) const;
  // An error that lists the names there are.
  Result<> check_names(const std::vector<std::string>& names) const;

 private:
  LocalCluster(std::filesystem::path dir, ClusterSettings settings)
      : dir_(std::move(dir)), settings_(std::move(settings)) {}

  // Those of further proxies are behind the nodes and the first one's admin interface, two for
  // each; those of etcd are the last two.
  int port_of(const std::string& name) const;
  int admin_port_of(const std::string& proxy) const;
  int last_port() const;
  std::filesystem::path file_of(const std::string& name, const char* ending) const;
  std::string tls_file(const char* name) const;
  Result<std::vector<std::string>> command_of(const std::string& name) const;
  Result<> check_files() const;
  Result<> write_files() const;
  Result<> check_config() const;
  std::vector<std::string> command_of_etcd() const;
  Result<> wait_for_node(const std::string& name, const ProcessId& process) const;
  Result<> wait_for_proxy(const std::string& name, const ProcessId& process) const;
  // That runs; nothing if none does.
  std::optional<std::string> running_proxy() const;
  Result<> start_together(const std::vector<std::string>& names);
  Result<> stop_together(const std::vector<std::string>& names);
  // What a proxy says of the nodes, by name.
  struct ToldNode {
    std::string incarnation_up;  // empty if it is not up
    std::string process;         // that answered last
    std::string lacks;           // capabilities that the cluster uses
  };
  using ToldNodes = std::map<std::string, ToldNode>;
  Result<ToldNodes> told_nodes() const;  // of the first proxy that answers
  Result<ToldNodes> told_nodes(const std::string& proxy) const;

  std::filesystem::path dir_;
  ClusterSettings settings_;
};

}  // namespace elastripe::cli
