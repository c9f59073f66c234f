// Maps as answers to HELLO tell them.
#pragma once

#include "proxy/cluster/node_client.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe::decider {

// The map of the node that has answered with kOk; null if it has none. `known` is the map that the
// request named, or null: the answer is empty if that is the node's, or may be changes of it.
// Errors: what came can not be read, or the changes do not fit; then the whole map can be asked for
// by naming none.
node::Decoded<node::MapPtr> told_map(const NodeReply& reply, const node::MapPtr& known);

}  // namespace elastripe::decider
