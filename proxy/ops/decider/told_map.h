// Maps as answers to HELLO tell them.
#pragma once

#include <deque>

#include "proxy/cluster/node_client.h"
#include "proxy/ops/decider/decider_peer.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe::decider {

// The map of the node that has answered with kOk; null if it has none. `known` is the map that the
// request named, or null: the answer is empty if that is the node's, or may be changes of it. A map
// that one of `peers` has told before is not made once more: after a change, all nodes tell the
// same one, and it names every partition.
// Errors: what came can not be read, or the changes do not fit; then the whole map can be asked for
// by naming none.
node::Decoded<node::MapPtr> told_map(const NodeReply& reply, const node::MapPtr& known,
                                     const std::deque<Peer>& peers);

}  // namespace elastripe::decider
