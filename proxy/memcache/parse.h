// Parses the command lines of memcached's text protocol, and gives binary requests to binary.h.
// Pure: no I/O, no clock.
//
// The parser sees a growing buffer of what the client sent and gives a request, an error or
// "need more"; where the bytes were split between calls makes no difference. It stops after the
// line of a storage command: the session then reads the data block (data_block.h).
//
// Grammar and texts are those of memcached 1.6.18, with these differences, which close holes:
//  - keys with a NUL are refused; it does not end the line
//  - numbers that overflow are refused, never wrapped (but for exptime, which wraps as memcached's)
//  - when a storage line is refused but its byte count is readable, the data block is swallowed, so
//    that a value is never taken for commands
//  - lines are capped whether or not their end has already arrived, and the reason is told
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/memcache/refusal.h"
#include "proxy/memcache/request.h"

namespace elastripe::memcache {

struct ParseLimits {
  size_t line_bytes = 2048;               // of a line without its end
  size_t retrieval_line_bytes = 1 << 20;  // of a get, gets, gat or gats line
  size_t retrieval_keys = 65536;
};

enum class ParseStatus : uint8_t {
  kNeedMore,  // no full line yet
  kRequest,   // the request was filled in
  kInvalid,   // the line was refused
};

struct ParseResult {
  ParseStatus status = ParseStatus::kNeedMore;
  size_t consumed = 0;  // bytes to drop from the front of the input; 0 if kNeedMore
  // For kInvalid only:
  Refusal refusal = {};        // of replies.h; none: answer nothing
  uint64_t swallow_bytes = 0;  // then skip so many bytes of the input (DataBlock::swallow)
  bool close = false;          // then close the connection
};

// One per connection.
class RequestParser {
 public:
  explicit RequestParser(ParseLimits limits = {}) : limits_(limits) {}

  // `input` begins with the line to parse. After kNeedMore, the next input must begin with the same
  // bytes (they may have moved); they are not scanned again. A line that is refused leaves no more
  // in `request` than its answer takes.
  ParseResult parse(std::string_view input, Request& request);

 private:
  ParseLimits limits_;
  size_t scanned_ = 0;  // bytes of the input known to hold no line feed
};

}  // namespace elastripe::memcache
