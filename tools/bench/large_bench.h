// elastripe bench large: single PUTs and GETs of large objects: coded, copied, beside memcached and
// Redis.
#pragma once

#include "tools/cli/commands.h"

namespace elastripe::bench {

void add_large_bench_command(CLI::App& bench, cli::Globals& globals);

}  // namespace elastripe::bench
