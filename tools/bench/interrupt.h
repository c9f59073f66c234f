// SIGINT and SIGTERM end a benchmark in good order: it stops at the next round, and its servers
// with it.
#pragma once

#include "tools/cli/result.h"

namespace elastripe::bench {

// From now on the signals are noted.
void watch_interrupts();
bool was_interrupted();

}  // namespace elastripe::bench
