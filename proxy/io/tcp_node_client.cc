#include "proxy/io/tcp_node_client.h"

namespace elastripe {
namespace {

struct Completion {
  NodeCall& call;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) const noexcept { call.waiter = waiter; }
  void await_resume() const noexcept {}
};

}  // namespace

TcpNodeClient::TcpNodeClient(Loop& loop, Clock& clock, const std::vector<NodeAddress>& addresses,
                             MetricRegistry& registry, ChannelLimits limits) {
  const auto make = [&](const NodeAddress& node, ChannelUse use) {
    return std::make_unique<Channel>(loop, clock, node, use, limits, registry);
  };
  for (const NodeAddress& node : addresses) {
    channels_.push_back(make(node, ChannelUse::kData));
    control_channels_.push_back(make(node, ChannelUse::kControl));
  }
}

Task<Result<NodeReply>> TcpNodeClient::call(NodeId to, Stamp stamp, NodeRequestPtr request,
                                            TimePoint deadline) {
  if (cancelled_) co_return fail(ErrorCode::kCancelled, "shutting down");
  if (to >= channels_.size()) co_return fail(ErrorCode::kInvalid, "no node {}", to);
  Channel& channel = *(node::is_control(request->opcode) ? control_channels_ : channels_)[to];
  NodeCall call(channel, stamp, *request);
  if (!channel.submit(call, deadline)) {
    co_return fail(ErrorCode::kBusy, "the queue to node {} is full", channel.name());
  }
  CallStop* const stop = request->stop;
  if (stop != nullptr) stop->begin(call);
  co_await Completion{call};
  if (stop != nullptr) stop->end();
  request.reset();
  co_return std::move(*call.result);
}

void TcpNodeClient::cancel_all() {
  cancelled_ = true;
  for (auto& channel : channels_) channel->cancel_all();
  for (auto& channel : control_channels_) channel->cancel_all();
}

}  // namespace elastripe
