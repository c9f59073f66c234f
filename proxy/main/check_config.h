// What must hold between settings. Internal to proxy/main/config.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proxy/config/reader.h"
#include "proxy/main/config.h"

namespace elastripe::config {

// The nodes that pools are to fit.
struct NodeCount {
  size_t nodes = 0;
  size_t domains = 0;
};
inline constexpr NodeCount kEnoughNodes{SIZE_MAX, SIZE_MAX};
NodeCount nodes_of(const Config& config);

// Reports the first thing in `config` that could not work.
void check_config(const Config& config, Problems& problems, const NodeCount& nodes);

// Why a proxy that runs can not take the pools of another configuration; nothing: it can.
std::optional<std::string> obstacle_to_pools(const Config& running, const Config& wanted);
// The same where nodes will keep as many copies of records as it takes.
std::optional<std::string> obstacle_to_logs(const Config& running, const Config& wanted);

}  // namespace elastripe::config
