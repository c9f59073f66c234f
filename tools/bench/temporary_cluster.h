// A cluster of nodes and a proxy on this machine, in a directory of its own under the temporary
// one, that ends with the scope.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "client-lib/client.h"
#include "tools/cli/local_cluster.h"

namespace elastripe::bench {

class TemporaryCluster {
 public:
  // Returns when requests are served.
  static cli::Result<std::unique_ptr<TemporaryCluster>> start(cli::ClusterSettings settings);
  ~TemporaryCluster();
  TemporaryCluster(const TemporaryCluster&) = delete;
  TemporaryCluster& operator=(const TemporaryCluster&) = delete;

  const std::filesystem::path& dir() const { return cluster_.dir(); }
  const cli::ClusterSettings& settings() const { return cluster_.settings(); }
  const cli::LocalCluster& processes() const { return cluster_; }
  // SIGKILL; returns when they are gone.
  cli::Result<> kill(const std::vector<std::string>& names) { return cluster_.kill(names); }

  uint16_t proxy_port() const { return static_cast<uint16_t>(settings().port); }
  uint16_t node_port(int node) const { return static_cast<uint16_t>(settings().port + 1 + node); }

 private:
  explicit TemporaryCluster(cli::LocalCluster cluster) : cluster_(std::move(cluster)) {}

  cli::LocalCluster cluster_;
};

cli::Result<client::Client> connect_to(uint16_t port);

}  // namespace elastripe::bench
