// elastripe bench transition: the experiments of the ERS paper, on a cluster of real processes on
// this machine: how long one object's transition takes by size, parameters, bandwidth and order
// selection; how fast many go; and what clients feel meanwhile.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_transition_bench_command(CLI::App& bench, cli::Globals& globals);

}  // namespace elastripe::bench
