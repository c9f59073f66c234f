// The servers that an experiment compares, all on loopback and ended with the scope: clusters of
// ours, and their peers: plain memcached, twemproxy (nutcracker) in front of plain memcached, and
// Redis with a replica.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxy/io/tls.h"
#include "tools/bench/object_client.h"
#include "tools/cli/admin.h"
#include "tools/cli/local_cluster.h"

namespace elastripe::bench {

// What takes part in a comparison, as its clients see it.
struct Target {
  std::string name = {};
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  std::vector<uint16_t> more_ports = {};  // of further proxies
  std::string key_prefix = {};
  std::vector<pid_t> front = {};                    // what clients are connected to
  std::vector<pid_t> back = {};                     // what is behind it
  bool redis = false;                               // else it speaks memcached's protocol
  std::shared_ptr<const TlsContext> tls = nullptr;  // of clients; null: in clear

  cli::Result<std::unique_ptr<ObjectClient>> connect() const {
    return ObjectClient::connect(host, port, redis);
  }
};

// The program as a file: of PATH and of the directories of system programs. An error says which
// package has it.
cli::Result<std::string> needed_program(const std::string& name, const char* package);
// A new one under the system's; the caller removes it.
cli::Result<std::filesystem::path> make_temporary_directory();

struct Cluster {
  Target target;
  cli::LocalCluster* processes = nullptr;  // of the testbed

  cli::Result<cli::AdminClient> admin() const {
    return cli::AdminClient::of_server(processes->server(), processes->admin_address());
  }
  // Until the map has so many nodes that are "up" or "lost" and, if it has to be whole, all is
  // synced; an error if that takes too long.
  cli::Result<> wait_for(const char* state, int nodes, bool whole) const;
  // The numbers of `stats <what>` by name, of each node.
  cli::Result<std::vector<std::map<std::string, uint64_t>>> node_stats(const char* what) const;
  // The sums of them.
  cli::Result<std::map<std::string, uint64_t>> sum_of_stats(const char* what) const;
};

class Testbed {
 public:
  // Takes ports from `first_port` on, those that are free.
  static cli::Result<std::unique_ptr<Testbed>> create(int first_port);
  ~Testbed();
  Testbed(const Testbed&) = delete;
  Testbed& operator=(const Testbed&) = delete;

  // The node server without the engine: memcached 1.6.18, built as the nodes are.
  cli::Result<Target> start_memcached(int threads, int memory_mb, bool tls = false);

  // Where certificates of tls_init are for whoever speaks TLS here, and what clients of these show
  // and believe; those of a cluster with TLS are its own.
  cli::Result<std::filesystem::path> certificates();
  cli::Result<std::shared_ptr<const TlsContext>> tls();
  static cli::Result<std::shared_ptr<const TlsContext>> tls_of(const Cluster& cluster);

  // One twemproxy before `nodes` memcacheds of one thread, by ketama. Needs nutcracker.
  cli::Result<Target> start_twemproxy(int nodes, int memory_mb);

  // A primary with one replica that is in sync; persistence is off. Needs redis-server.
  cli::Result<Target> start_redis(int memory_mb);

  // The first of `count` free ports in a row.
  cli::Result<int> take_ports(int count);

  // A cluster of ours; the port of the settings is chosen here. What is overwritten leaves its
  // nodes after a second, so that long runs do not fill them; a request may take 30 s, so that one
  // that waits on a busy machine is slow, and no error.
  cli::Result<Cluster> start_cluster(std::string name, cli::ClusterSettings settings);
  // "elastripe<of>" and, before it, if `baseline` is the directory of another build's programs,
  // "baseline<of>".
  cli::Result<std::vector<Cluster>> start_clusters(const std::string& of,
                                                   cli::ClusterSettings settings,
                                                   const std::string& baseline);

 private:
  Testbed(std::filesystem::path dir, int first_port)
      : dir_(std::move(dir)), next_port_(first_port) {}

  // Starts a server that listens on the port, and waits until it accepts.
  cli::Result<pid_t> start_server(const std::string& name, int port,
                                  const std::vector<std::string>& argv);

  std::filesystem::path dir_;
  int next_port_;
  std::vector<cli::ProcessId> servers_;  // but those of the clusters
  std::vector<std::unique_ptr<cli::LocalCluster>> clusters_;
};

}  // namespace elastripe::bench
