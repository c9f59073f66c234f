// The rows of the settings (proxy/config/setting.h), with their places in a Config. Internal to
// proxy/main/config.cc and cluster_config.cc.
#pragma once

#include <vector>

#include "proxy/config/reader.h"
#include "proxy/config/setting.h"
#include "proxy/config/write.h"
#include "proxy/main/config.h"

namespace elastripe::config {

// All settings but those of lists, in the order of the file; and those of an item of each list.
Settings settings_of(Config& config);
Settings settings_of(NodeConfig& node);
Settings settings_of(ListenConfig& listen);
Settings settings_of(PoolConfig& pool);
// The parts of the file, with the items of their lists.
std::vector<Section> sections_of(Config& config);

// Takes the pools that are listed there, if any are, and M.
void read_pools(MapReader& map, Config& config);
// What follows from others: a request can go on after a node's death, sessions wait for a value as
// long as the flow that takes it in.
void derive_settings(Config& config);

}  // namespace elastripe::config
