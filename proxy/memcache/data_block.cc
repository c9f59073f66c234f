#include "proxy/memcache/data_block.h"

#include <algorithm>

#include "proxy/base/check.h"

namespace elastripe::memcache {

std::string_view DataBlock::take_body(std::string_view& input) {
  const size_t bytes = static_cast<size_t>(std::min<uint64_t>(body_left_, input.size()));
  const std::string_view part = input.substr(0, bytes);
  input.remove_prefix(bytes);
  body_left_ -= bytes;
  return part;
}

void DataBlock::body_received(uint64_t bytes) {
  CHECK(bytes <= body_left_, "{} bytes received, {} left", bytes, body_left_);
  body_left_ -= bytes;
}

void DataBlock::take_terminator(std::string_view& input) {
  CHECK(body_left_ == 0);
  constexpr std::string_view kTerminator = "\r\n";
  while (terminator_left_ > 0 && !input.empty()) {
    if (input.front() != kTerminator[kTerminatorBytes - terminator_left_]) valid_ = false;
    --terminator_left_;
    input.remove_prefix(1);
  }
}

void DataBlock::swallow(std::string_view& input) {
  take_body(input);
  if (body_left_ == 0) take_terminator(input);
}

}  // namespace elastripe::memcache
