// The data block after the line of a storage command: exactly the declared bytes, then "\r\n"; in
// the binary protocol nothing comes behind them.
//
// The session moves the body where it wants it (a buffer sized from the header); this counts. Like
// memcached it always takes declared + 2 bytes and only then looks whether the last two were
// "\r\n".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace elastripe::memcache {

class DataBlock {
 public:
  static constexpr size_t kTerminatorBytes = 2;

  DataBlock() = default;  // complete and valid, without a body
  // `terminator_bytes`: kTerminatorBytes or 0.
  explicit DataBlock(uint64_t value_bytes, size_t terminator_bytes = kTerminatorBytes)
      : body_left_(value_bytes), terminator_left_(terminator_bytes) {}

  uint64_t body_left() const { return body_left_; }
  // Bytes of the input that still belong to the block, terminator included.
  uint64_t left() const { return body_left_ + terminator_left_; }
  bool complete() const { return left() == 0; }
  // Once complete: the terminator was right; else answer replies::kBadDataChunk.
  bool valid() const { return valid_; }

  // Cuts the body's next part off the front of `input`; empty once the body is complete.
  std::string_view take_body(std::string_view& input);

  // `bytes` of the body (at most body_left()) were read past the input, straight into their buffer.
  void body_received(uint64_t bytes);

  // Cuts what it can of the terminator off the front of `input`; call when the body is complete.
  void take_terminator(std::string_view& input);

  // Cuts what belongs to the block off the front of `input` and drops it: for refused values.
  void swallow(std::string_view& input);

 private:
  uint64_t body_left_ = 0;
  size_t terminator_left_ = 0;
  bool valid_ = true;
};

}  // namespace elastripe::memcache
