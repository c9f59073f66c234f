// TcpNodeClient: the NodeClient of a worker: one channel to each node, and one of its own for
// control frames, which nodes serve on a thread of its own: none waits behind data on its way.
#pragma once

#include <memory>
#include <vector>

#include "proxy/cluster/map_view.h"
#include "proxy/io/channel.h"

namespace elastripe {

// Made, used and destroyed on (or before and after) its loop's thread. No call may be alive when it
// is destroyed: cancel_all(), then join the flows.
class TcpNodeClient : public NodeClient {
 public:
  // `addresses` by node id. `tls` as for Channel.
  TcpNodeClient(Loop& loop, Clock& clock, Random& random, const std::vector<NodeAddress>& addresses,
                MetricRegistry& registry, ChannelLimits limits = {},
                const Published<TlsContext>* tls = nullptr);

  // From now on, nodes are those that `view` says: those that come later are called too, and those
  // that are elsewhere now, where they are. Whoever is where it was keeps its connection. Both
  // outlive the client.
  void follow(const MapView& view, std::shared_ptr<Resolver> resolver);

  // As promised by NodeClient. Of connects, only a refused one is kUnavailable, at all addresses of
  // the node as they are now; else the call was not sent, which does not prove a node dead.
  Task<Result<NodeReply>> call(NodeId to, Stamp stamp, NodeRequestPtr request,
                               TimePoint deadline) override;

  // Ends every call, now and from now on, with kCancelled.
  void cancel_all();

 private:
  // One for all channels: theirs would lie in the heap of every deadline of a call.
  struct IdleTimer : Timer {
    explicit IdleTimer(TcpNodeClient& client) : owner(client) {}
    void on_timer() override { owner.close_idle(); }
    TcpNodeClient& owner;
  };

  // One node. `data` and `control` are never null.
  struct Line {
    NodeAddress address;
    std::unique_ptr<Channel> data, control;
  };
  Line line_to(NodeAddress node);
  void look_at_members();
  void look_for_idle();
  void close_idle();

  Loop& loop_;
  Clock& clock_;
  Random& random_;
  MetricRegistry& registry_;
  const ChannelLimits limits_;
  const Published<TlsContext>* const tls_;
  const MapView* view_ = nullptr;
  std::shared_ptr<Resolver> resolver_;
  uint64_t members_version_ = 0;  // as looked at
  std::vector<Line> lines_;       // by node id
  std::vector<Line> left_;        // to where nodes are no more: calls may be under way
  IdleTimer idle_timer_{*this};   // armed while there may be a connection
  bool cancelled_ = false;
};

}  // namespace elastripe
