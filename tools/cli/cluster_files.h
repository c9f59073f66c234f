// What a cluster of one machine (local_cluster.h) writes into its directory, and reads again.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/cli/local_cluster.h"

namespace elastripe::cli {

// The first line of the proxies' configuration tells that it is one of these.
inline constexpr const char* kConfigHeader =
    "# Written by `elastripe cluster start`; docs/config.example.yaml explains every key.";

// A YAML scalar in double quotes: prefixes may hold anything.
std::string quoted(const std::string& text);

// elastripe.yaml. `dir`: where the files are that it names.
std::string config_of(const ClusterSettings& settings, const std::filesystem::path& dir);
// cluster.json; throws nlohmann::json::exception if it is none.
nlohmann::json to_json(const ClusterSettings& settings);
ClusterSettings from_json(const nlohmann::json& json);

// The admin interface of the last proxy; ports of etcd are behind it.
int last_proxy_port(const ClusterSettings& settings);
std::string etcd_url(const ClusterSettings& settings, int port);

}  // namespace elastripe::cli
