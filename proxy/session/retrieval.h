// Retrievals: get, gets, gat, gats and mg.
#pragma once

#include "proxy/session/execution.h"

namespace elastripe {

// What execute() says of retrievals (execute.h).
Task<void> run_retrieval(Execution& run, ClientCommand& command);

}  // namespace elastripe
