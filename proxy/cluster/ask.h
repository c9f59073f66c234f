// Ask: one request to one node, and its answer. The message says which opcode it has, which reply,
// and which statuses are answers (server-patches/node/format/message.h); all others are refusals.
#pragma once

#include <concepts>
#include <string>
#include <utility>

#include "proxy/cluster/node_client.h"

namespace elastripe {

// As it is configured; of a node that the map does not have, its number.
std::string node_name(const node::ClusterMap& map, NodeId node);

// A refusal as an Error. The statuses that say "another epoch, incarnation, role or lease" are
// kStaleEpoch: definitely not executed; look for a newer map and start again.
Error refusal(const node::ClusterMap& map, NodeId node, const NodeReply& reply);
// An answer that can not be read: the node may have done what it was asked.
Error malformed(const node::ClusterMap& map, NodeId node, std::string_view why);

// A message in its frame, and what goes with it (NodeRequest).
template <class Request>
struct Question {
  NodeRequestPtr frame;

  Question& payload(std::span<const Buffer> pieces) {
    add_payload(*frame, pieces);
    return *this;
  }
};

template <class Request>
Question<Request> question(const Request& message) {
  return {make_request(message)};
}

template <class Request>
struct Answer {
  NodeReply reply;
  typename Request::Reply args;  // where the status has any (node::has_args)

  node::Status status() const { return reply.status(); }
  ByteView payload() const { return reply.payload(); }
};

// Errors: those of NodeClient::call, and refusal() and malformed() of what the node said.
template <class Request>
[[gnu::noinline]] Result<Answer<Request>> read_answer(const node::ClusterMap& map, NodeId from,
                                                      Result<NodeReply> reply) {
  if (!reply) return fail(std::move(reply.error()));
  if (!node::is_answer<Request>(reply->status())) return fail(refusal(map, from, *reply));
  Answer<Request> answer{std::move(*reply), {}};
  if (node::has_args<Request>(answer.status())) {
    auto args = node::decode<typename Request::Reply>(answer.reply.args());
    if (!args) return fail(malformed(map, from, args.error()));
    answer.args = std::move(*args);
  }
  return answer;
}

// What ask() returns: awaiting it asks. It is no coroutine of its own, which every call would pay.
template <class Request>
class [[nodiscard]] Ask {
 public:
  Ask(Task<Result<NodeReply>> call, const node::ClusterMap& map, NodeId to)
      : call_(std::move(call)), map_(map), to_(to) {}

  auto operator co_await() && noexcept {
    struct Awaiter {
      decltype(std::declval<Task<Result<NodeReply>>>().operator co_await()) call;
      const node::ClusterMap& map;
      NodeId from;
      bool await_ready() const noexcept { return false; }
      auto await_suspend(std::coroutine_handle<> awaiter) noexcept {
        return call.await_suspend(awaiter);
      }
      Result<Answer<Request>> await_resume() {
        return read_answer<Request>(map, from, call.await_resume());
      }
    };
    return Awaiter{std::move(call_).operator co_await(), map_, to_};
  }

 private:
  Task<Result<NodeReply>> call_;
  const node::ClusterMap& map_;
  const NodeId to_;
};

// Asks a node as `map` knows it (rule 6a), which lives until the answer is there.
template <class Request>
Ask<Request> ask(NodeClient& nodes, const node::ClusterMap& map, NodeId to,
                 Question<Request> question, TimePoint deadline) {
  const Stamp stamp = node::is_control(Request::kOpcode) ? Stamp{} : stamp_for(map, to);
  return {nodes.call(to, stamp, std::move(question.frame), deadline), map, to};
}
template <class Request>
Ask<Request> ask(NodeClient& nodes, const node::ClusterMap& map, NodeId to, const Request& message,
                 TimePoint deadline) {
  return ask(nodes, map, to, question(message), deadline);
}

// Asks for something to be done, whose answer says no more than that it is.
template <class Request>
  requires std::same_as<typename Request::Reply, node::NoArgs>
Task<Result<void>> tell(NodeClient& nodes, MapPtr map, NodeId to, Request message,
                        TimePoint deadline) {
  const auto done = co_await ask(nodes, *map, to, message, deadline);
  if (!done) co_return fail(done.error());
  co_return Result<void>{};
}

}  // namespace elastripe
