// TcpNodeClient: the NodeClient of a worker: one channel to each node, and one of its own for
// control frames, which nodes serve on a thread of its own: none waits behind data on its way.
#pragma once

#include <memory>
#include <vector>

#include "proxy/io/channel.h"

namespace elastripe {

// Made, used and destroyed on (or before and after) its loop's thread. No call may be alive when it
// is destroyed: cancel_all(), then join the flows.
class TcpNodeClient : public NodeClient {
 public:
  // `addresses` by node id.
  TcpNodeClient(Loop& loop, Clock& clock, const std::vector<NodeAddress>& addresses,
                MetricRegistry& registry, ChannelLimits limits = {});

  // As promised by NodeClient. Of connects, only a refused one is kUnavailable, at all addresses of
  // the node as they are now; else the call was not sent, which does not prove a node dead.
  Task<Result<NodeReply>> call(NodeId to, Stamp stamp, NodeRequestPtr request,
                               TimePoint deadline) override;

  // Ends every call, now and from now on, with kCancelled.
  void cancel_all();

 private:
  using Channels = std::vector<std::unique_ptr<Channel>>;
  Channels channels_;
  Channels control_channels_;
  bool cancelled_ = false;
};

}  // namespace elastripe
