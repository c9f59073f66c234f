// Updates that all copies have, and whose tails have not been told so yet: one frame a tail tells
// of many. One per OpsContext.
#pragma once

#include <unordered_map>
#include <vector>

#include "server-patches/node/format/cluster_map.h"
#include "server-patches/node/format/log_messages.h"

namespace elastripe {

struct Settling {
  node::MapPtr map;  // under which they were settled
  std::unordered_map<node::NodeId, std::vector<node::LogSettleRequest::Entry>> by_tail;
  bool is_due = false;  // a flow is about to tell
};

}  // namespace elastripe
