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

TcpNodeClient::TcpNodeClient(Loop& loop, Clock& clock, Random& random,
                             const std::vector<NodeAddress>& addresses, MetricRegistry& registry,
                             ChannelLimits limits, const Published<TlsContext>* tls)
    : loop_(loop), clock_(clock), random_(random), registry_(registry), limits_(limits), tls_(tls) {
  for (const NodeAddress& node : addresses) lines_.push_back(line_to(node));
}

TcpNodeClient::Line TcpNodeClient::line_to(NodeAddress node) {
  const auto channel = [&](ChannelUse use) {
    return std::make_unique<Channel>(loop_, clock_, random_, node, use, limits_, registry_, tls_);
  };
  auto data = channel(ChannelUse::kData);
  auto control = channel(ChannelUse::kControl);
  return {std::move(node), std::move(data), std::move(control)};
}

void TcpNodeClient::follow(const MapView& view, std::shared_ptr<Resolver> resolver) {
  view_ = &view;
  resolver_ = std::move(resolver);
}

void TcpNodeClient::look_at_members() {
  members_version_ = view_->members_version();
  const MembersPtr members = view_->members();
  for (const node::NodeInfo& node : members->nodes) {
    if (node.id < lines_.size()) {
      const NodeAddress& known = lines_[node.id].address;
      if (known.name == node.name && known.host == node.host && known.port == node.port) continue;
    }
    NodeAddress address = {
        .name = node.name, .addresses = {}, .host = node.host, .port = node.port};
    if (is_numeric(node.host)) {
      if (auto found = resolve_all(node.host, node.port)) address.addresses = std::move(*found);
    } else {
      address.resolver = resolver_;
    }
    Line line = line_to(std::move(address));
    if (node.id < lines_.size()) {
      left_.push_back(std::exchange(lines_[node.id], std::move(line)));
    } else {
      lines_.push_back(std::move(line));
    }
  }
}

Task<Result<NodeReply>> TcpNodeClient::call(NodeId to, Stamp stamp, NodeRequestPtr request,
                                            TimePoint deadline) {
  if (cancelled_) co_return fail(ErrorCode::kCancelled, "shutting down");
  if (view_ != nullptr && view_->members_version() != members_version_) look_at_members();
  if (to >= lines_.size()) co_return fail(ErrorCode::kInvalid, "no node {}", to);
  const Line& line = lines_[to];
  Channel& channel = *(node::is_control(request->opcode) ? line.control : line.data);
  NodeCall call(channel, stamp, *request);
  if (!channel.submit(call, deadline)) {
    co_return fail(ErrorCode::kBusy, "the queue to node {} is full", channel.name());
  }
  if (!idle_timer_.armed()) look_for_idle();
  CallStop* const stop = request->stop;
  if (stop != nullptr) stop->begin(call);
  co_await Completion{call};
  if (stop != nullptr) stop->end();
  request.reset();
  co_return std::move(*call.result);
}

void TcpNodeClient::look_for_idle() {
  loop_.arm(idle_timer_, loop_.turn_time() + limits_.idle / 4);
}

void TcpNodeClient::close_idle() {
  bool any = false;
  for (const auto* lines : {&lines_, &left_}) {
    for (const Line& line : *lines) {
      for (Channel* channel : {line.data.get(), line.control.get()}) {
        if (channel->close_if_idle()) any = true;
      }
    }
  }
  if (any) look_for_idle();
}

void TcpNodeClient::cancel_all() {
  cancelled_ = true;
  idle_timer_.cancel();
  for (const auto* lines : {&lines_, &left_}) {
    for (const Line& line : *lines) {
      line.data->cancel_all();
      line.control->cancel_all();
    }
  }
}

}  // namespace elastripe
