// What the handler of a data frame is given.
#pragma once

#include "server-patches/node/format/cluster_map.h"
#include "server-patches/node/format/frame.h"
#include "server-patches/node/store/item_store.h"

namespace elastripe::node {

// Memory that a frame lacked and that may be had by waiting: outside of the gate and of latches, so
// the frame is begun again.
struct Room {
  bool may_wait = false;  // not for ever: the last time it has to do with what there is
  bool is_awaited = false;
  size_t key_bytes = 0, value_bytes = 0;
  Urgency urgency = Urgency::kNewData;
};

// A data frame that has passed the gate: valid while the gate is held.
struct Context {
  const Frame& frame;
  const ClusterMap& map;
  NodeId self;
  Room& room;
  uint64_t now_ms;  // boot time, when it passed
};

}  // namespace elastripe::node
