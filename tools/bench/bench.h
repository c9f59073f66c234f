// elastripe bench: what coded objects cost against replicas and against plain memcached, measured
// on this machine over loopback.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_bench_command(CLI::App& app, cli::Globals& globals);

}  // namespace elastripe::bench
