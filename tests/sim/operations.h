// One operation of a client, carried out by the proxy's real flows.
#pragma once

#include <string>

#include "tests/sim/history.h"
#include "tests/sim/proxy.h"
#include "tests/sim/streams.h"

namespace elastripe::sim {

// Asks `proxy`, and notes in `op` what a client hears. `op` and the proxy outlive the task.
Task<void> execute(Operation& op, SimProxy& proxy, Pace pace, TimePoint deadline);

}  // namespace elastripe::sim
