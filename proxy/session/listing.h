// Answers `lru_crawler metadump` and `stats cachedump`: every object that there is.
#pragma once

#include "proxy/session/execution.h"

namespace elastripe {

// Lines leave part by part as the client takes them, so a listing of any length takes the memory of
// two parts and a page of one node. One that fails ends with the error in place of END, and with
// the connection: there are tools that wait for nothing but END.
Task<void> run_listing(Execution& run, const ClientCommand& command);

}  // namespace elastripe
