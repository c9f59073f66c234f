// The verdict on what clients were told, when a schedule is over.
#pragma once

#include "tests/sim/clients.h"
#include "tests/sim/promise.h"

namespace elastripe::sim {

// Counts what clients did, and looks for an order of it all that explains every answer: key by key,
// and, with flushes, of all keys together. If there is none, that is a violation.
void check_histories(Run& run, const Clients& clients, const Promise& promise);

}  // namespace elastripe::sim
