// elastripe bench reclaim: whether memory is given back as fast as clients fill it with objects
// that expire.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_reclaim_bench_command(CLI::App& bench, cli::Globals& globals);

}  // namespace elastripe::bench
