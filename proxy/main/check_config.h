// What must hold between settings. Internal to proxy/main/config.cc.
#pragma once

#include "proxy/config/reader.h"
#include "proxy/main/config.h"

namespace elastripe::config {

// Reports the first thing in `config` that could not work.
void check_config(const Config& config, Problems& problems);

}  // namespace elastripe::config
