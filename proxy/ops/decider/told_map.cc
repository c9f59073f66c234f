#include "proxy/ops/decider/told_map.h"

#include "server-patches/node/format/map_changes.h"
#include "server-patches/node/format/messages.h"

namespace elastripe::decider {

using node::ClusterMap;
using node::MapPtr;

node::Decoded<MapPtr> told_map(const NodeReply& reply, const MapPtr& known,
                               const std::deque<Peer>& peers) {
  if (reply.payload().empty()) {
    return known != nullptr && reply.header.epoch == known->epoch ? known : nullptr;
  }
  for (const Peer& peer : peers) {
    if (peer.found != nullptr && peer.found->epoch == reply.header.epoch) return peer.found;
  }
  const auto args = node::decode<node::HelloReply>(reply.args());
  if (args && args->is_changes) {
    if (known == nullptr) return std::unexpected("changes of a map that was not named");
    auto changed = node::apply_changes(*known, reply.payload());
    if (!changed) return std::unexpected(changed.error());
    return std::make_shared<const ClusterMap>(std::move(changed->map));
  }
  auto map = node::decode_map(reply.payload());
  if (!map) return std::unexpected(map.error());
  return std::make_shared<const ClusterMap>(std::move(*map));
}

}  // namespace elastripe::decider
