// NodeClient: how flows reach nodes. proxy/io implements it over TCP, the simulator in memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proxy/async/clock.h"
#include "proxy/base/buffer.h"
#include "proxy/base/error.h"
#include "server-patches/node/format/messages.h"

namespace elastripe {

using node::Id128;
using node::MapPtr;
using node::NodeId;

// What the node checks a request against. Pinned for the whole attempt: a request in flight is
// never stamped again (rule 6a).
struct Stamp {
  uint64_t cluster_id = 0;
  node::Epoch epoch;
  uint64_t incarnation = 0;
};
Stamp stamp_for(const node::ClusterMap& map, NodeId node);

// A call under way, to its NodeClient.
class StoppableCall {
 public:
  virtual void stop() = 0;

 protected:
  ~StoppableCall() = default;
};

// Ends a call before its deadline, for who can do without its answer. Lives until the call has
// ended; for one call at a time.
class CallStop {
 public:
  // The call returns kTimeout inside of this, and nothing is written to its `into` any more. If it
  // has ended or has not begun, nothing happens.
  void stop() {
    if (call_ != nullptr) std::exchange(call_, nullptr)->stop();
  }

  // For NodeClients.
  void begin(StoppableCall& call) { call_ = &call; }
  void end() { call_ = nullptr; }

 private:
  StoppableCall* call_ = nullptr;
};

struct NodeRequest {
  node::Opcode opcode = node::Opcode::kHello;
  std::string args;
  // Sent from where the bytes lie, without a copy.
  std::vector<ByteView> payload;
  // Where the payload of a kOk reply is read to, if its size is exactly the sum of these; otherwise
  // it arrives in the reply's body. Nothing is written here after the call has returned.
  std::vector<MutableByteView> into;
  // Keeps the memory of `payload` and `into` alive for as long as the transport uses it.
  std::vector<Buffer> keep;
  CallStop* stop = nullptr;
};

// A request on its way through several hands. Its memory serves the next one.
struct KeepRequest {
  void operator()(NodeRequest* gone) const;
};
using NodeRequestPtr = std::unique_ptr<NodeRequest, KeepRequest>;

// An empty one, to fill.
NodeRequestPtr new_request(node::Opcode opcode);

// Gives the request a payload of these pieces, which it then keeps.
void add_payload(NodeRequest& request, std::span<const Buffer> pieces);

struct NodeReply {
  node::ReplyHeader header;
  Buffer body;  // args, then the payload unless it went to `into`

  node::Status status() const { return header.status; }
  ByteView args() const { return body.bytes().first(header.args_bytes); }
  ByteView payload() const { return body.bytes().subspan(header.args_bytes); }
};

// What a call, or an ask(), ended with: whether the node may have done what it was asked, or may
// yet. A refusal, too, says that it has not.
inline bool may_be_done(const Error& error) {
  switch (error.code) {
    case ErrorCode::kUnavailable:  // never sent
    case ErrorCode::kBusy:
    case ErrorCode::kNotSent:
    case ErrorCode::kStaleEpoch:  // refused
    case ErrorCode::kLost:
    case ErrorCode::kNoSpace:
    case ErrorCode::kNotFound:
    case ErrorCode::kTooLarge:
    case ErrorCode::kConflict:
    case ErrorCode::kInvalid:
      return false;
    default:
      return true;
  }
}

// One per worker thread. Calls of one turn of the loop leave together.
class NodeClient {
 public:
  virtual ~NodeClient() = default;

  // Sends one request and waits for its reply, which may have any status.
  // Errors: kUnavailable: it was never sent, as the node refuses connections (so its process is
  // gone). kBusy, kNotSent: never sent either: too many calls wait, or the deadline came or the
  // connection broke while it waited. kInvalid: no such node. kTimeout, kDisconnected (also if the
  // node sent nonsense), kCancelled (shutdown): it may have been executed, or may yet be.
  // Connecting counts towards the deadline; a refused connection answers kUnavailable at once.
  virtual Task<Result<NodeReply>> call(NodeId to, Stamp stamp, NodeRequestPtr request,
                                       TimePoint deadline) = 0;
};

// The frame of a message, without payload.
template <class Message>
NodeRequestPtr make_request(const Message& message) {
  NodeRequestPtr request = new_request(Message::kOpcode);
  node::encode(message, request->args);
  return request;
}

}  // namespace elastripe
