#include <fmt/format.h>

#include <iterator>

#include "proxy/config/config.h"

namespace elastripe {
namespace {

// Double-quoted YAML; settings hold printable ASCII only.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::string print_config(const Config& config) {
  std::string text;
  const auto print = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::vformat_to(std::back_inserter(text), format, fmt::make_format_args(args...));
  };
  print("cluster: {}\n", quoted(config.cluster));
  print("listen: {{host: {}, port: {}}}\n", quoted(config.listen.host), config.listen.port);
  print("admin: {{host: {}, port: {}}}\n", quoted(config.admin.host), config.admin.port);
  print("insecure: {}\n", config.insecure);
  print("refused_is_dead: {}\n", config.refused_is_dead);
  print("threads: {}\n", config.threads);
  print("log_level: {}\n", quoted(config.log_level));
  print("partitions: {}\n", config.partitions);
  print("segment_bytes: {}\n", config.segment_bytes);
  print("max_object_bytes: {}\n", config.max_object_bytes);
  print("record_cache_bytes: {}\n", config.record_cache_bytes);
  print("nodes:\n");
  for (const NodeConfig& node : config.nodes) {
    print("  - {{name: {}, host: {}, port: {}, domain: {}}}\n", quoted(node.name),
          quoted(node.address.host), node.address.port, quoted(node.domain));
  }
  print("pools:\n");
  for (const PoolConfig& pool : config.pools) {
    print("  - prefix: {}\n", quoted(pool.prefix));
    print("    scheme: {}\n", quoted(coding::to_string(pool.scheme)));
    print("    inline_max_bytes: {}\n", pool.inline_max_bytes);
    print("    degraded_writes: {}\n", pool.degraded_writes);
  }
  print("limits:\n");
  print("  connections: {}\n", config.limits.connections);
  print("  staged_bytes: {}\n", config.limits.staged_bytes);
  print("  read_bytes: {}\n", config.limits.read_bytes);
  print("timing:\n");
  print("  heartbeat_ms: {}\n", config.timing.heartbeat_ms);
  print("  suspect_after_ms: {}\n", config.timing.suspect_after_ms);
  print("  lease_ms: {}\n", config.timing.lease_ms);
  print("  read_grace_ms: {}\n", config.timing.read_grace_ms);
  print("  upload_idle_ms: {}\n", config.timing.upload_idle_ms);
  print("  request_timeout_ms: {}\n", config.timing.request_timeout_ms);
  print("  hedge_after_ms: {}\n", config.timing.hedge_after_ms);
  print("  tombstone_keep_ms: {}\n", config.timing.tombstone_keep_ms);
  print("  client_idle_ms: {}\n", config.timing.client_idle_ms);
  print("  client_keepalive_ms: {}\n", config.timing.client_keepalive_ms);
  return text;
}

}  // namespace elastripe
