// What must hold between settings. Internal to proxy/config.
#pragma once

#include "proxy/config/config.h"
#include "proxy/config/reader.h"

namespace elastripe::config {

// Reports the first thing in `config` that could not work.
void check_config(const Config& config, Problems& problems);

}  // namespace elastripe::config
