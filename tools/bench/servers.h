// The servers that a benchmark measures: a cluster with two pools a scheme, one that keeps objects
// inline and one that stripes all of them, and a plain memcached. They end with the scope.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/temporary_cluster.h"

namespace elastripe::bench {

struct ServerSettings {
  std::vector<std::string> schemes;
  int nodes = 9;
  int port = 15311;  // the cluster's; plain memcached takes the first one above it
  int memory_mb = 1024;
};

// Objects up to this are also measured inline, whatever the scheme.
inline constexpr int kInlineMaxBytes = 64 << 10;

// Prefixes of the keys of scheme number `scheme`.
std::string inline_prefix(size_t scheme);
std::string striped_prefix(size_t scheme);

class Servers {
 public:
  static cli::Result<std::unique_ptr<Servers>> start(const ServerSettings& settings);
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  uint16_t proxy_port() const { return cluster_->proxy_port(); }
  uint16_t plain_port() const { return plain_port_; }

  // Memory in use on all nodes: chunks that hold an item times their size, as `stats slabs` says.
  cli::Result<uint64_t> used_bytes() const;

 private:
  explicit Servers(std::unique_ptr<TemporaryCluster> cluster) : cluster_(std::move(cluster)) {}
  cli::Result<> start_plain(int memory_mb);

  std::unique_ptr<TemporaryCluster> cluster_;
  cli::ProcessId plain_;
  uint16_t plain_port_ = 0;
};

}  // namespace elastripe::bench
