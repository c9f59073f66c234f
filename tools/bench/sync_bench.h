// elastripe bench sync: what it takes to have all records at their homes again, after a node has
// died and after one was away for some seconds.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_sync_bench_command(CLI::App& bench, cli::Globals& globals);

}  // namespace elastripe::bench
