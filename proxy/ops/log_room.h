// Who waits for room in update logs, and who makes it. One per OpsContext.
#pragma once

#include "proxy/async/key_locks.h"

namespace elastripe {

struct LogRoom {
  // A turn is of a key whose log was found full. Who has it goes next; what comes later waits
  // behind, so that small updates do not take the room that a large one waits for.
  KeyLocks turns{};
  KeyLocks folding{};  // of keys whose logs updates of this thread have begun to fold
};

}  // namespace elastripe
