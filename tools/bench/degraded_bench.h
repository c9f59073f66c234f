// elastripe bench degraded: GETs of objects whose data shards are missing, beside GETs of whole
// ones.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_degraded_bench_command(CLI::App& bench, cli::Globals& globals);

}  // namespace elastripe::bench
