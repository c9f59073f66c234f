// Updates that the tail has numbered, on their way to the other copies of their logs. One per
// OpsContext.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "proxy/async/key_locks.h"

namespace elastripe {

struct StoringUpdate;  // proxy/ops/records/store_update.cc

struct Storing {
  // Updates that all copies have, and not all know the numbers of.
  struct Held {
    node::MapPtr map;
    uint64_t value = 0;
    std::vector<node::UpdateName> numbers;  // ascending; of all that is not settled up to the last
  };
  KeyLocks rounds{};  // of keys with a round to the copies on its way
  // Those that no round has taken yet, by key. They lie in the frames of their flows.
  std::unordered_map<std::string, std::vector<StoringUpdate*>> waiting{};
  std::unordered_map<std::string, Held> held{};  // by key
  bool is_due = false;                           // a flow is about to tell the copies
};

}  // namespace elastripe
