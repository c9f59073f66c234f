// What all messages have in common: encode(message, out) and decode(ByteView) -> Decoded<message>.
//
// A request names its opcode (kOpcode) and the args of its reply (Reply). Nodes answer it with kOk;
// where others are answers as well, it names those whose reply has args (kAnswers), and those that
// have none but are no refusal to all who ask (kTold).
//
// A decoder leaves bytes behind what it knows alone: a newer peer's fields, which capability.h
// tells how to add. It takes memory for what it has read, not for what a count promises. A view in
// a message lies in what it was decoded from.
#pragma once

#include <string>

#include "server-patches/node/format/frame.h"

namespace elastripe::node {

// Names or tombstones that a node takes in one frame, so that none keeps it busy for long.
inline constexpr size_t kMaxListEntries = 4096;
template <class Message>
Decoded<Message> decode(ByteView in);

template <class Request>
constexpr bool has_args(Status status) {
  if constexpr (requires { Request::kAnswers; }) return Request::kAnswers.has(status);
  return status == Status::kOk;
}
template <class Request>
constexpr bool is_answer(Status status) {
  if constexpr (requires { Request::kTold; }) {
    if (Request::kTold.has(status)) return true;
  }
  return has_args<Request>(status);
}

// What requests and replies without arguments have.
struct NoArgs {};
void encode(const NoArgs& m, std::string& out);
template <>
Decoded<NoArgs> decode<NoArgs>(ByteView in);

// Declares both of a message.
#define ELASTRIPE_MESSAGE(Type)                 \
  void encode(const Type& m, std::string& out); \
  template <>                                   \
  Decoded<Type> decode<Type>(ByteView in)

}  // namespace elastripe::node
