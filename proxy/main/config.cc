#include "proxy/main/config.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/base/names.h"
#include "proxy/config/reader.h"
#include "proxy/config/tree.h"
#include "proxy/config/write.h"
#include "proxy/main/check_config.h"
#include "proxy/main/config_rows.h"

namespace elastripe {
namespace {

using config::derive_settings;
using config::MapReader;
using config::Places;
using config::Problems;
using config::read_pools;
using config::sections_of;
using config::Settings;
using config::settings_of;

constexpr std::string_view kExampleHeader =
    R"(# Every setting of elastripe-proxy, as `elastripe-proxy --example-config` prints them. All but
# `nodes` show their default; leave out what you do not change. Check a file with
# `elastripe-proxy --check-config`, override single settings with `--set PATH=VALUE`
# (`--set timing.lease_ms=5000`, `--set nodes.0.port=11401`).
# Sizes are whole bytes, or whole numbers with KiB, MiB or GiB. Times are in milliseconds. In brackets
# stands what a setting may be. Those with (SIGHUP) can be changed while the proxy runs: at SIGHUP it
# reads its file again. Those with (cluster) are the cluster's, once it has any: the file counts for a
# new cluster only, and `elastripe config set` changes them. The others need a restart.
)";

NodeConfig read_node(MapReader& map, Problems& problems) {
  NodeConfig node;
  for (const char* key : {"name", "host", "port"}) {
    if (!map.has(key)) problems.report(map.path_of(key), "is missing");
  }
  map.settings(settings_of(node));
  if (!map.has("domain")) node.domain = node.name;
  return node;
}

ListenConfig read_listener(MapReader& map, Problems& problems) {
  ListenConfig listen{.address = {"127.0.0.1", 0}};
  if (!map.has("port") && !map.has("path")) {
    problems.report(map.path_of("port"), "is missing, and so is path");
  }
  map.settings(settings_of(listen));
  return listen;
}

Config read_config(const YAML::Node& tree, Problems& problems) {
  Config config;
  MapReader map(problems, "", tree);
  config.named.paths = map.settings(settings_of(config));
  if (map.has("pools")) config.named.paths.insert("pools");
  map.list("listeners",
           [&](MapReader& under) { config.listeners.push_back(read_listener(under, problems)); });
  map.list("nodes", [&](MapReader& under) { config.nodes.push_back(read_node(under, problems)); });
  if (!config.join.empty() && !config.nodes.empty()) {
    problems.report("join", "takes the place of nodes: leave them out");
  }
  config.joins = config.nodes.empty() && (!config.join.empty() || config.etcd.is_used());
  read_pools(map, config);
  map.finish();
  derive_settings(config);
  return config;
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", endpoint.host, ipv6 ? "]" : "", endpoint.port);
}

std::string etcd_prefix(const Config& config) {
  std::string prefix = config.etcd.prefix;
  if (prefix.empty()) prefix = "/elastripe/" + config.cluster;
  if (!prefix.ends_with('/')) prefix += '/';
  return prefix;
}

std::string to_string(const ListenConfig& listen) {
  return listen.path.empty() ? to_string(listen.address) : listen.path;
}

Result<Config> parse_config(std::string_view yaml, std::string_view file_name,
                            std::span<const std::string> overrides) {
  Places places(file_name);
  const Result<YAML::Node> tree = config::build_tree(yaml, file_name, overrides, places);
  if (!tree) return fail(tree.error());
  Problems problems(places);
  try {
    Config config = read_config(*tree, problems);
    if (!problems.any()) config::check_config(config, problems, config::nodes_of(config));
    if (!problems.any()) return config;
    return fail(problems.first());
  } catch (const YAML::Exception& e) {
    return fail(ErrorCode::kInvalid, "{}: {}", file_name, one_line(e.what()));
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

Result<ConfigChange> change_config(const Config& running, const Config& wanted,
                                   bool is_of_cluster) {
  ConfigChange change{.config = running, .taken = {}, .need_restart = {}};
  Config& config = change.config;
  Config source = wanted;
  const Settings to = settings_of(config);
  const Settings from = settings_of(source);
  for (size_t i = 0; i < to.size(); ++i) {
    const std::string text = from[i].text();
    if (text == to[i].text()) continue;
    if (!to[i].reloads && !(is_of_cluster && to[i].is_cluster_wide)) {
      change.need_restart.emplace_back(to[i].path);
      continue;
    }
    CHECK(to[i].read(text).has_value(), "{} is not read as it is written", to[i].path);
    change.taken.push_back(fmt::format("{}={}", to[i].path, from[i].yaml()));
  }
  derive_settings(config);
  if (wanted.listeners != running.listeners) change.need_restart.emplace_back("listeners");
  if (wanted.nodes != running.nodes) {
    change.need_restart.emplace_back("nodes (members change by `elastripe node`)");
  }
  const auto obstacle = is_of_cluster ? std::nullopt : config::obstacle_to_pools(running, wanted);
  if (obstacle) {
    change.need_restart.push_back(fmt::format("pools ({})", *obstacle));
  } else if (wanted.pools != running.pools) {
    config.pools = wanted.pools;
    change.taken.emplace_back("pools");
  }
  Config checked = config;
  checked.nodes = wanted.nodes;  // whoever adds a node adds it there, too
  Places places("together with what needs a restart");
  Problems problems(places);
  config::check_config(checked, problems,
                       is_of_cluster ? config::kEnoughNodes : config::nodes_of(checked));
  if (problems.any()) return fail(problems.first());
  return change;
}

Result<void> recheck_config(const Config& config) {
  Places places("together with what the cluster says");
  Problems problems(places);
  config::check_config(config, problems, config::nodes_of(config));
  if (problems.any()) return fail(problems.first());
  return {};
}

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  Endpoint endpoint;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc{} || end != port.data() + port.size() || endpoint.port == 0) {
    return std::nullopt;
  }
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  endpoint.host = host;
  const bool is_ipv6 = host.find(':') != std::string_view::npos;
  if (!is_host(endpoint.host) || is_ipv6 != is_bracketed) return std::nullopt;
  return endpoint;
}

std::string print_config(const Config& config) {
  Config copy = config;
  return config::write_file(settings_of(copy), sections_of(copy), false);
}

namespace {

// The defaults, with as many nodes as they need.
Config example() {
  Config config;
  for (uint16_t i = 1; i <= 6; ++i) {
    const std::string name = fmt::format("n{}", i);
    config.nodes.push_back({name, {"127.0.0.1", static_cast<uint16_t>(11400 + i)}, name});
  }
  return config;
}

}  // namespace

std::string example_config() {
  Config config = example();
  return std::string(kExampleHeader) +
         config::write_file(settings_of(config), sections_of(config), true);
}

std::string list_settings() {
  Config config = example();
  return config::write_list(settings_of(config), sections_of(config));
}

std::vector<std::pair<std::string, std::string>> setting_stats(const Config& config) {
  Config copy = config;
  std::vector<std::pair<std::string, std::string>> stats;
  for (const config::Setting& setting : settings_of(copy)) {
    if (setting.section() == "listen" || setting.section() == "admin") continue;
    if (setting.section() == "tls" || setting.path == "users_file") continue;  // paths
    stats.emplace_back(setting.name(), setting.text());
  }
  return stats;
}

}  // namespace elastripe
