// elastripe bench small: throughput, latency, processor time and system calls of small objects
// over many connections, beside plain memcached and twemproxy.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_small_bench_command(CLI::App& bench, cli::Globals& globals);

}  // namespace elastripe::bench
