#include "tools/cli/cluster_files.h"

#include <fmt/core.h>

namespace elastripe::cli {

using Json = nlohmann::json;

std::string quoted(const std::string& text) { return Json(text).dump(); }

int last_proxy_port(const ClusterSettings& settings) {
  return settings.port + settings.nodes + 2 * settings.proxies - 1;
}

std::string etcd_url(const ClusterSettings& settings, int port) {
  return fmt::format("{}://{}:{}", settings.tls ? "https" : "http", settings.address, port);
}

namespace {

// What makes it TLS and authentication; `dir`: where the files are.
std::string security_of(const ClusterSettings& settings, const std::filesystem::path& dir) {
  if (!settings.tls && !settings.auth) return "";
  const auto file = [&](const char* name) {
    return quoted(std::filesystem::absolute(dir / name).string());
  };
  std::string text = fmt::format("listeners:\n  - {{path: {}, mode: 0600}}\n", file(kSocketName));
  if (settings.tls) {
    text += fmt::format("tls: {{certificate: {}, key: {}, ca: {}, nodes: true}}\n",
                        file("tls/proxy.pem"), file("tls/proxy.key"), file("tls/ca.pem"));
  }
  if (settings.auth) text += fmt::format("users_file: {}\n", file(kUsersName));
  return text;
}

// Where proxies find it, and what they show there.
std::string etcd_of(const ClusterSettings& settings, const std::filesystem::path& dir) {
  const auto file = [&](const char* name) {
    return quoted(std::filesystem::absolute(dir / "tls" / name).string());
  };
  std::string text =
      fmt::format("etcd:\n  endpoints: {}\n", etcd_url(settings, last_proxy_port(settings) + 1));
  if (settings.tls) {
    text += fmt::format("  certificate: {}\n  key: {}\n  ca: {}\n", file("proxy.pem"),
                        file("proxy.key"), file("ca.pem"));
  }
  return text;
}

}  // namespace

std::string config_of(const ClusterSettings& settings, const std::filesystem::path& dir) {
  std::string text = fmt::format(
      "{3}\n"
      "listen: {{host: {0}, port: {1}, tls: {4}, authenticate: {5}}}\n"
      "admin: {{host: {0}, port: {2}}}\n",
      settings.address, settings.port, settings.port + 1 + settings.nodes, kConfigHeader,
      settings.tls ? "on" : "off", settings.auth);
  text += security_of(settings, dir);
  if (settings.etcd) text += etcd_of(settings, dir);
  text += "nodes:\n";
  for (int i = 0; i < settings.nodes; ++i) {
    text += fmt::format("  - {{name: n{}, host: {}, port: {}}}\n", i, settings.address,
                        settings.port + 1 + i);
  }
  text += fmt::format("pools:\n  - {{prefix: \"\", scheme: {}}}\n", quoted(settings.scheme));
  for (const PoolSettings& pool : settings.pools) {
    text += fmt::format("  - {{prefix: {}, scheme: {}", quoted(pool.prefix), quoted(pool.scheme));
    if (pool.inline_max_bytes)
      text += fmt::format(", inline_max_bytes: {}", *pool.inline_max_bytes);
    text += "}\n";
  }
  return text;
}

Json to_json(const ClusterSettings& settings) {
  Json pools = Json::array();
  for (const PoolSettings& pool : settings.pools) {
    Json json = {{"prefix", pool.prefix}, {"scheme", pool.scheme}};
    if (pool.inline_max_bytes) json["inline_max_bytes"] = *pool.inline_max_bytes;
    pools.push_back(json);
  }
  return {{"nodes", settings.nodes},         {"proxies", settings.proxies},
          {"scheme", settings.scheme},       {"pools", pools},
          {"address", settings.address},     {"port", settings.port},
          {"memory_mb", settings.memory_mb}, {"node_threads", settings.node_threads},
          {"log_units", settings.log_units}, {"set", settings.set},
          {"etcd", settings.etcd},           {"tls", settings.tls},
          {"auth", settings.auth},           {"programs", settings.programs}};
}

ClusterSettings from_json(const Json& json) {
  ClusterSettings settings;
  json.at("nodes").get_to(settings.nodes);
  json.at("scheme").get_to(settings.scheme);
  for (const Json& pool : json.at("pools")) {
    PoolSettings read{pool.at("prefix"), pool.at("scheme"), {}};
    if (pool.contains("inline_max_bytes"))
      read.inline_max_bytes = pool.at("inline_max_bytes").get<int>();
    settings.pools.push_back(read);
  }
  json.at("address").get_to(settings.address);
  json.at("port").get_to(settings.port);
  json.at("memory_mb").get_to(settings.memory_mb);
  json.at("node_threads").get_to(settings.node_threads);
  json.at("set").get_to(settings.set);
  settings.proxies = json.value("proxies", 1);
  settings.log_units = json.value("log_units", 0);
  settings.etcd = json.value("etcd", false);
  settings.tls = json.value("tls", false);
  settings.auth = json.value("auth", false);
  settings.programs = json.value("programs", "");
  return settings;
}

}  // namespace elastripe::cli
