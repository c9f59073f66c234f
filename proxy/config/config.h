// The proxy's settings: a YAML file, overrides from the command line, and defaults for the rest.
//
// docs/config.example.yaml lists every setting. Whatever is unknown, of a wrong type, out of bounds
// or impossible in combination is refused with the place and the reason; nothing is guessed. A
// Config that came from here is consistent; it is immutable and shared by all threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coding/scheme.h"
#include "proxy/base/error.h"

namespace elastripe {

struct Endpoint {
  std::string host;
  uint16_t port = 0;  // 0: any free port, for listening only

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "host:port", with brackets around an IPv6 address.
std::string to_string(const Endpoint& endpoint);

struct NodeConfig {
  std::string name;
  Endpoint address;
  std::string domain;  // failure domain; the node's name if not set

  friend bool operator==(const NodeConfig&, const NodeConfig&) = default;
};

struct PoolConfig {
  std::string prefix;  // of its keys; empty for the default pool
  coding::Scheme scheme{coding::LayoutKind::kErs2, 4, 1, 5};
  uint32_t inline_max_bytes = 16 << 10;
  bool degraded_writes = false;

  friend bool operator==(const PoolConfig&, const PoolConfig&) = default;
};

struct LimitsConfig {
  uint32_t connections = 4096;
  uint64_t staged_bytes = 256 << 20;
  uint64_t read_bytes = 256 << 20;

  friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

// The defaults are those of the profile "standard".
struct TimingConfig {
  uint32_t heartbeat_ms = 100;
  uint32_t suspect_after_ms = 1000;
  uint32_t lease_ms = 3000;
  uint32_t read_grace_ms = 10000;
  uint32_t upload_idle_ms = 30000;
  uint32_t request_timeout_ms = 8000;
  uint32_t hedge_after_ms = 100;
  uint32_t tombstone_keep_ms = 60000;
  uint32_t client_idle_ms = 0;           // 0: for ever
  uint32_t client_keepalive_ms = 60000;  // 0: nobody is asked

  // How long one call to a node may take, so that a request can go on after a node's death.
  uint32_t node_timeout_ms() const { return std::min(2000u, request_timeout_ms / 4); }

  friend bool operator==(const TimingConfig&, const TimingConfig&) = default;
};

struct Config {
  std::string cluster = "elastripe";
  Endpoint listen{"127.0.0.1", 11211};
  Endpoint admin{"127.0.0.1", 9211};
  bool insecure = false;
  bool refused_is_dead = true;
  uint32_t threads = 0;  // 0: one per CPU
  std::string log_level = "info";
  uint32_t partitions = 1024;
  uint32_t segment_bytes = 4 << 20;
  uint64_t max_object_bytes = uint64_t{1} << 30;
  uint64_t record_cache_bytes = 64 << 20;
  std::vector<NodeConfig> nodes;                // as listed: the position is the node's id
  std::vector<PoolConfig> pools{PoolConfig{}};  // as listed; one has the empty prefix
  LimitsConfig limits;
  TimingConfig timing;
  // Not a setting of the file: an operator decides it for one start, on the command line.
  bool force_epoch = false;

  friend bool operator==(const Config&, const Config&) = default;
};

// Reads the YAML text, applies the overrides in order and checks the result. An override is
// "path=value" ("timing.lease_ms=5000", "nodes.0.port=11401", "pools=[{scheme: rep:3}]"); the value
// is YAML and replaces what is there; the index after the last appends. Errors are one line:
// "FILE:12: timing.lease_ms: ..." or "--set timing.lease_ms=1: ...".
Result<Config> parse_config(std::string_view yaml, std::string_view file_name,
                            std::span<const std::string> overrides = {});

// The same for a file.
Result<Config> load_config(const std::string& path, std::span<const std::string> overrides = {});

// The effective settings as YAML, defaults included; parse_config reads it back to an equal Config
// (but for force_epoch).
std::string print_config(const Config& config);

}  // namespace elastripe
