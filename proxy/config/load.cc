#include <filesystem>
#include <fstream>
#include <iterator>

#include "proxy/base/bytes.h"
#include "proxy/config/check.h"
#include "proxy/config/config.h"
#include "proxy/config/reader.h"
#include "proxy/config/tree.h"

namespace elastripe {
namespace {

using config::MapReader;
using config::Places;
using config::Problems;

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGiB = 1 << 30;
constexpr uint64_t kMaxValueBytes = 2 * kGiB - 3;  // the largest that the protocol can declare
constexpr uint64_t kDay_ms = 24ULL * 60 * 60 * 1000;
constexpr uint64_t kMaxKeepalive_ms = 32'767'000;  // Linux takes no longer TCP_KEEPIDLE

void read_endpoint(MapReader& map, Endpoint& endpoint, uint16_t lowest_port) {
  map.text("host", endpoint.host);
  map.number("port", endpoint.port, lowest_port, 65535);
}

NodeConfig read_node(MapReader& map, Problems& problems) {
  NodeConfig node;
  for (const char* key : {"name", "host", "port"}) {
    if (!map.has(key)) problems.report(map.path_of(key), "is missing");
  }
  map.text("name", node.name);
  node.domain = node.name;
  read_endpoint(map, node.address, 1);
  map.text("domain", node.domain);
  return node;
}

PoolConfig read_pool(MapReader& map, Problems& problems) {
  PoolConfig pool;
  map.text("prefix", pool.prefix);
  std::string scheme_text;
  if (map.has("scheme")) {
    map.text("scheme", scheme_text);
    if (const auto scheme = coding::parse_scheme(scheme_text)) {
      pool.scheme = *scheme;
    } else {
      problems.report(map.path_of("scheme"), "{}", scheme.error());
    }
  }
  map.bytes("inline_max_bytes", pool.inline_max_bytes, 0, kMiB);
  map.boolean("degraded_writes", pool.degraded_writes);
  return pool;
}

void read_limits(MapReader& map, LimitsConfig& limits) {
  map.number("connections", limits.connections, 1, 1'000'000);
  map.bytes("staged_bytes", limits.staged_bytes, kMiB, 1024 * kGiB);
  map.bytes("read_bytes", limits.read_bytes, kMiB, 1024 * kGiB);
}

// Settings beside the profile override it.
void read_profile(MapReader& map, TimingConfig& timing, Problems& problems) {
  std::string profile = "standard";
  map.text("profile", profile);
  if (profile == "local") {
    timing.heartbeat_ms = 50;
    timing.suspect_after_ms = 300;
    timing.lease_ms = 900;
    timing.hedge_after_ms = 50;
  } else if (profile != "standard") {
    problems.report(map.path_of("profile"), "is '{}', must be standard or local",
                    escape_for_log(profile));
  }
}

void read_timing(MapReader& map, TimingConfig& timing, Problems& problems) {
  read_profile(map, timing, problems);
  map.number("heartbeat_ms", timing.heartbeat_ms, 10, 60'000);
  map.number("suspect_after_ms", timing.suspect_after_ms, 20, 600'000);
  map.number("lease_ms", timing.lease_ms, 30, 600'000);
  map.number("read_grace_ms", timing.read_grace_ms, 100, kDay_ms);
  map.number("upload_idle_ms", timing.upload_idle_ms, 100, kDay_ms);
  map.number("request_timeout_ms", timing.request_timeout_ms, 100, kDay_ms);
  map.number("hedge_after_ms", timing.hedge_after_ms, 1, 60'000);
  map.number("tombstone_keep_ms", timing.tombstone_keep_ms, 100, kDay_ms);
  map.number("client_idle_ms", timing.client_idle_ms, 0, kDay_ms);
  map.number("client_keepalive_ms", timing.client_keepalive_ms, 0, kMaxKeepalive_ms);
}

Config read_config(const YAML::Node& tree, Problems& problems) {
  Config config;
  MapReader map(problems, "", tree);
  map.text("cluster", config.cluster);
  map.map("listen", [&](MapReader& under) { read_endpoint(under, config.listen, 0); });
  map.map("admin", [&](MapReader& under) { read_endpoint(under, config.admin, 0); });
  map.boolean("insecure", config.insecure);
  map.boolean("refused_is_dead", config.refused_is_dead);
  map.number("threads", config.threads, 0, 256);
  map.text("log_level", config.log_level);
  map.number("partitions", config.partitions, 1, 65536);
  map.bytes("segment_bytes", config.segment_bytes, 4 * kKiB, 64 * kMiB);
  map.bytes("max_object_bytes", config.max_object_bytes, 1, kMaxValueBytes);
  map.bytes("record_cache_bytes", config.record_cache_bytes, 0, 1024 * kGiB);
  map.list("nodes", [&](MapReader& under) { config.nodes.push_back(read_node(under, problems)); });
  if (map.has("pools")) config.pools.clear();
  map.list("pools", [&](MapReader& under) { config.pools.push_back(read_pool(under, problems)); });
  map.map("limits", [&](MapReader& under) { read_limits(under, config.limits); });
  map.map("timing", [&](MapReader& under) { read_timing(under, config.timing, problems); });
  map.finish();
  return config;
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", endpoint.host, ipv6 ? "]" : "", endpoint.port);
}

Result<Config> parse_config(std::string_view yaml, std::string_view file_name,
                            std::span<const std::string> overrides) {
  Places places(file_name);
  const Result<YAML::Node> tree = config::build_tree(yaml, file_name, overrides, places);
  if (!tree) return fail(tree.error());
  Problems problems(places);
  try {
    Config config = read_config(*tree, problems);
    if (!problems.any()) config::check_config(config, problems);
    if (!problems.any()) return config;
    return fail(problems.first());
  } catch (const YAML::Exception& e) {
    return fail(ErrorCode::kInvalid, "{}: {}", file_name, e.what());
  }
}

Result<Config> load_config(const std::string& path, std::span<const std::string> overrides) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail(ErrorCode::kInvalid, "{}: is a directory, must be a file", path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "{}: cannot be opened", path);
  std::string text;
  try {
    text.assign(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios_base::failure&) {  // the buffer throws what the stream would only note
    return fail(ErrorCode::kInvalid, "{}: cannot be read", path);
  }
  return parse_config(text, path, overrides);
}

}  // namespace elastripe
