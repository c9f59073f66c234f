// What a handler of a frame answers; serve() makes the header.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "server-patches/node/engine/engine.h"

namespace elastripe::node {

struct Answer {
  Status status = Status::kOk;
  std::string args;
  OwnedBytes payload;
  Epoch epoch;
};
Answer refuse(Status status, std::string_view reason);

template <class Message>
Answer answer(Status status, const Message& message, OwnedBytes payload = {}) {
  Answer result{.status = status, .args = {}, .payload = std::move(payload), .epoch = {}};
  encode(message, result.args);
  return result;
}

}  // namespace elastripe::node
