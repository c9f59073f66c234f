#include "proxy/main/cluster_config.h"

#include <algorithm>
#include <set>

#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/main/check_config.h"
#include "proxy/main/config_rows.h"

namespace elastripe {
namespace {

using config::MapReader;
using config::Places;
using config::Problems;
using config::Section;
using config::Setting;
using config::Settings;

constexpr std::string_view kPlace = "the cluster's settings";

bool is_local(const Setting& setting) { return !setting.is_cluster_wide; }

Settings cluster_wide(Config& config) {
  Settings settings = config::settings_of(config);
  std::erase_if(settings, is_local);
  return settings;
}

// What is not said there is as by default, and not as in some file.
void set_defaults(Config& config) {
  Config defaults;
  const Settings from = cluster_wide(defaults);
  const Settings to = cluster_wide(config);
  for (size_t i = 0; i < to.size(); ++i) {
    CHECK(to[i].read(from[i].text()).has_value(), "{} has no default", to[i].path);
  }
  config.pools = defaults.pools;
}

Result<Config> read_cluster(Config config, std::string_view text,
                            std::span<const std::string> overrides) {
  Places places(kPlace);
  const auto tree = config::build_tree(text, kPlace, overrides, places);
  if (!tree) return fail(tree.error());
  Problems problems(places);
  try {
    set_defaults(config);
    MapReader map(problems, "", *tree);
    map.settings(cluster_wide(config));
    config::read_pools(map, config);
    map.finish();
    config::derive_settings(config);
    if (!problems.any()) return config;
    return fail(problems.first());
  } catch (const YAML::Exception& e) {
    return fail(ErrorCode::kInvalid, "{}: {}", kPlace, one_line(e.what()));
  }
}

// It would be unknown there.
Result<void> check_is_wide(const std::string& setting) {
  Config config;
  const std::string_view path = std::string_view(setting).substr(0, setting.find('='));
  // In files these two are of no effect either, once there is a cluster.
  if (path == "partitions") {
    return fail(ErrorCode::kInvalid, "{}: is fixed since the cluster was formed", path);
  }
  if (path == "timing.profile") {
    return fail(ErrorCode::kInvalid,
                "{}: is for the file of a new cluster: set the times that it stands for, "
                "timing.heartbeat_ms, timing.suspect_after_ms and timing.lease_ms; "
                "timing.hedge_after_ms is set in the file of each proxy",
                path);
  }
  for (const Setting& row : config::settings_of(config)) {
    if (row.path == path && is_local(row)) {
      return fail(ErrorCode::kInvalid, "{}: is not the cluster's: set it in the file of each proxy",
                  path);
    }
  }
  return {};
}

config::NodeCount nodes_of(const node::ClusterMap& map) {
  config::NodeCount count;
  std::set<std::string_view> domains;
  for (const node::NodeInfo& node : map.nodes) {
    if (node.is_removed()) continue;
    ++count.nodes;
    domains.insert(node.domain);
  }
  count.domains = domains.size();
  return count;
}

// Errors name the settings by which they came, where they can.
Result<void> check(const Config& config, std::span<const std::string> settings,
                   const config::NodeCount& nodes) {
  Places places(kPlace);
  for (const std::string& setting : settings) {
    places.add_override(setting.substr(0, setting.find('=')),
                        "--set " + shown_on_line(setting, 200));
  }
  Problems problems(places);
  config::check_config(config, problems, nodes);
  if (problems.any()) return fail(problems.first());
  return {};
}

}  // namespace

std::string cluster_text(const Config& config) {
  Config copy = config;
  std::vector<Section> sections = config::sections_of(copy);
  std::erase_if(sections, [](const Section& section) {
    return section.name != "pools" && section.name != "timing";
  });
  return config::write_file(cluster_wide(copy), sections, /*is_explained=*/false);
}

Result<Config> with_cluster(const Config& file, std::string_view text) {
  return read_cluster(file, text, {});
}

std::vector<std::string> overruled(const Config& file, const Config& in_force) {
  Config said = file;
  Config counts = in_force;
  Config defaults;
  const Settings from = cluster_wide(said);
  const Settings to = cluster_wide(counts);
  const Settings unsaid = cluster_wide(defaults);
  const auto names = [&](std::string_view path) { return file.named.paths.contains(path); };
  std::vector<std::string> paths;
  for (size_t i = 0; i < to.size(); ++i) {
    if (from[i].text() == to[i].text()) continue;
    // What is not as by default is what the profile that the file names says.
    if (!names(from[i].path) && from[i].text() == unsaid[i].text()) continue;
    paths.push_back(fmt::format("{}={}", from[i].path, from[i].yaml()));
  }
  if (names("pools") && file.pools != in_force.pools) paths.emplace_back("pools");
  return paths;
}

Result<SettingsChange> change_cluster(const Config& running, const node::ClusterMap& map,
                                      std::span<const std::string> settings, bool is_recycled) {
  if (map.settings.version == 0) {
    return fail(ErrorCode::kUnavailable,
                "the cluster has no settings of its own until all its nodes know of such");
  }
  for (const std::string& setting : settings) {
    if (auto checked = check_is_wide(setting); !checked) return fail(checked.error());
  }
  const auto before = read_cluster(running, map.settings.text, {});
  if (!before) return fail(before.error());
  auto wanted = read_cluster(running, map.settings.text, settings);
  if (!wanted) return fail(wanted.error());
  // Pools that stay may have become too large for the nodes that are left.
  const bool has_other_pools = wanted->pools != before->pools;
  if (auto checked =
          check(*wanted, settings, has_other_pools ? nodes_of(map) : config::kEnoughNodes);
      !checked) {
    return fail(checked.error());
  }
  const auto obstacle = config::obstacle_to_logs(running, *wanted);
  if (obstacle && !is_recycled) {
    return fail(ErrorCode::kInvalid, "pools: {}: have them recycled first, and say so", *obstacle);
  }
  SettingsChange change;
  change.of_version = map.settings.version;
  for (const PoolConfig& pool : wanted->pools) {
    change.max_parities = std::max(change.max_parities, static_cast<uint8_t>(pool.scheme.m));
  }
  decider::DeciderSettings decider = wanted->decider;
  decider.cluster_text = cluster_text(*wanted);
  change.settings = decider::cluster_settings(decider);
  change.settings.version = change.of_version + 1;
  return change;
}

}  // namespace elastripe
