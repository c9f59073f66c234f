// What must hold between settings. Internal to proxy/main/config.cc.
#pragma once

#include <optional>
#include <string>

#include "proxy/config/reader.h"
#include "proxy/main/config.h"

namespace elastripe::config {

// Reports the first thing in `config` that could not work.
void check_config(const Config& config, Problems& problems);

// Why a proxy that runs can not take the pools of another configuration; nothing: it can.
std::optional<std::string> obstacle_to_pools(const Config& running, const Config& wanted);

}  // namespace elastripe::config
