// elastripe bench ycsb: the core workloads of the Yahoo! Cloud Serving Benchmark, on any memcached
// server.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_ycsb_bench_command(CLI::App& bench, cli::Globals& globals);

}  // namespace elastripe::bench
