// Reads a client's byte stream as a session does, in one piece and byte by byte, and compares.
//
// The parser must never read or consume past its input, accept a key that is none, or give
// different results for different splits.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/base/check.h"
#include "proxy/memcache/data_block.h"
#include "proxy/memcache/parse.h"

namespace {

using namespace elastripe;
using namespace elastripe::memcache;

constexpr ParseLimits kLimits{
    .line_bytes = 300, .retrieval_line_bytes = 1000, .retrieval_keys = 100};

// One session; what it saw is written down in a transcript.
class Session {
 public:
  // Gives it the next bytes of the stream.
  void receive(std::string_view bytes) {
    buffer_ += bytes;
    while (!closed_ && step()) {
    }
  }
  const std::string& transcript() const { return transcript_; }

 private:
  bool step() {
    std::string_view input = buffer_;
    if (!block_.complete()) {
      if (input.empty()) return false;
      if (swallowing_) {
        block_.swallow(input);
      } else {
        transcript_ += block_.take_body(input);
        if (block_.body_left() == 0) block_.take_terminator(input);
      }
      if (block_.complete()) transcript_ += block_.valid() ? "(end)" : "(bad end)";
      buffer_.erase(0, buffer_.size() - input.size());
      return true;
    }
    const ParseResult result = parser_.parse(input, request_);
    CHECK(result.consumed <= input.size());
    CHECK((result.status == ParseStatus::kNeedMore) == (result.consumed == 0));
    if (result.status == ParseStatus::kNeedMore) return false;
    note(result);
    buffer_.erase(0, result.consumed);
    return true;
  }

  void note(const ParseResult& result) {
    if (result.status == ParseStatus::kInvalid) {
      transcript_ +=
          fmt::format("(refused {} {} {})", result.reply, result.swallow_bytes, result.close);
      closed_ = result.close;
      swallowing_ = true;
      if (result.swallow_bytes > 0) {
        block_ = DataBlock(result.swallow_bytes - DataBlock::kTerminatorBytes);
      }
      return;
    }
    CHECK(request_.key.empty() || is_valid_key(request_.key));
    transcript_ +=
        fmt::format("({} {} {} {} {} {} {} {} {} {}", name(request_.command), request_.noreply,
                    request_.key, request_.flags, request_.exptime, request_.value_bytes,
                    request_.cas_unique, request_.delta, request_.verbosity, request_.argument);
    for (const std::string_view key : request_.keys) {
      CHECK(is_valid_key(key));
      transcript_ += ' ';
      transcript_ += key;
    }
    transcript_ += ')';
    swallowing_ = false;
    if (is_storage(request_.command)) block_ = DataBlock(request_.value_bytes);
  }

  RequestParser parser_{kLimits};
  Request request_;
  DataBlock block_;
  bool swallowing_ = false;
  bool closed_ = false;
  std::string buffer_;
  std::string transcript_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  Session whole;
  whole.receive(stream);
  Session pieces;
  for (size_t i = 0; i < size; ++i) pieces.receive(stream.substr(i, 1));
  CHECK(whole.transcript() == pieces.transcript());
  return 0;
}
