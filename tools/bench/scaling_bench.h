// elastripe bench scaling: what a request costs as connections and nodes grow.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_scaling_bench_command(CLI::App& bench, cli::Globals& globals);

}  // namespace elastripe::bench
