// elastripe bench crossover: from which size on striping costs no more than storing whole.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_crossover_bench_command(CLI::App& bench, cli::Globals& globals);

}  // namespace elastripe::bench
