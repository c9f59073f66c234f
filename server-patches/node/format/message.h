// What all messages have in common: encode(message, out) and decode(ByteView) -> Decoded<message>.
//
// A decoder refuses left-over bytes, and takes memory for what it has read, not for what a count
// promises. A view in a message lies in what it was decoded from.
#pragma once

#include <string>

#include "server-patches/node/format/frame.h"

namespace elastripe::node {

// Names or tombstones that a node takes in one frame, so that none keeps it busy for long.
inline constexpr size_t kMaxListEntries = 4096;
template <class Message>
Decoded<Message> decode(ByteView in);

// Declares both of a message.
#define ELASTRIPE_MESSAGE(Type)                 \
  void encode(const Type& m, std::string& out); \
  template <>                                   \
  Decoded<Type> decode<Type>(ByteView in)

}  // namespace elastripe::node
