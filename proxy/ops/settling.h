// Updates that all copies have, and whose tails have not been told so yet: the next update of the
// key tells, or soon one frame a tail, of many. One per OpsContext.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

struct Settling {
  struct Log {
    uint64_t value = 0;
    uint64_t lsn = 0;
  };
  node::MapPtr map;  // under which they were settled
  std::unordered_map<node::NodeId, std::map<std::string, Log, std::less<>>> by_tail;
  bool is_due = false;  // a flow is about to tell
};

}  // namespace elastripe
