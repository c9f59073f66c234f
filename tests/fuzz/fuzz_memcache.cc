// Reads a client's byte stream as a session does, in one piece and byte by byte, and compares.
//
// The parser must never read or consume past its input, accept a key that is none, or give
// different results for different splits.
#include "proxy/base/check.h"
#include "proxy/memcache/binary.h"
#include "proxy/memcache/data_block.h"
#include "proxy/memcache/meta.h"
#include "proxy/memcache/parse.h"
#include "tests/fuzz/client_samples.h"
#include "tests/fuzz/fuzzer.h"

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
  // It asked for something, and nothing else.
  bool was_understood() const { return !transcript_.empty() && !refused_; }

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
      const BinaryHead head = request_.binary.value_or(BinaryHead{});
      transcript_ += fmt::format("(refused {} {} {} {})", result.refusal.line, result.swallow_bytes,
                                 result.close, head.opaque);
      refused_ |= !request_.binary;
      closed_ = result.close;
      swallowing_ = true;
      if (request_.binary) {
        block_ = DataBlock(result.swallow_bytes, /*terminator_bytes=*/0);
      } else if (result.swallow_bytes > 0) {
        block_ = DataBlock(result.swallow_bytes - DataBlock::kTerminatorBytes);
      }
      return;
    }
    const bool is_binary = request_.binary.has_value();
    CHECK(request_.key.empty() || is_binary || is_valid_key(request_.key));
    CHECK(request_.key.size() <= kMaxKeyBytes);
    transcript_ +=
        fmt::format("({} {} {} {} {} {} {} {} {} {}", name(request_.command), request_.noreply,
                    request_.key, request_.flags, request_.exptime, request_.value_bytes,
                    request_.cas_unique, request_.delta, request_.verbosity, request_.argument);
    if (is_binary) {
      transcript_ +=
          fmt::format(" {} {} {} {}", static_cast<int>(request_.binary->opcode),
                      request_.binary->opaque, request_.initial, request_.creates.value_or(-1));
    }
    for (const std::string_view key : request_.keys) {
      CHECK(is_binary ? key.size() <= kMaxKeyBytes : is_valid_key(key));
      transcript_ += ' ';
      transcript_ += key;
    }
    transcript_ += ')';
    if (is_meta(request_.command)) note_meta();
    swallowing_ = false;
    if (is_storage(request_.command) || is_sasl_login(request_.command)) {
      block_ = DataBlock(request_.value_bytes, is_binary ? 0 : DataBlock::kTerminatorBytes);
    }
  }

  void note_meta() {
    const auto flags = parse_meta_flags(request_.command, request_.argument);
    if (!flags) {
      refused_ = true;
      transcript_ += fmt::format("(refused {})", flags.error().line);
      CHECK(request_.command != Command::kMetaSet);
      return;
    }
    std::string key(request_.key);
    if (flags->is_base64) {
      const auto decoded = decode_key(request_.command, request_.key);
      refused_ |= !decoded;
      CHECK(decoded || request_.command != Command::kMetaSet);
      key = decoded.value_or("refused");
    }
    CHECK(!key.empty() && key.size() <= kMaxKeyBytes);
    transcript_ += fmt::format("({} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {})", key,
                               flags->value, flags->answers, flags->opaque, flags->quiet,
                               flags->cas.value_or(0), flags->exptime.value_or(0),
                               flags->creates.value_or(0), flags->client_flags, flags->delta,
                               flags->initial, flags->offset.value_or(0), flags->length.value_or(0),
                               flags->recache.value_or(0), flags->new_cas.value_or(0),
                               flags->invalidates, flags->empties, flags->is_no_use);
  }

  RequestParser parser_{kLimits};
  Request request_;
  DataBlock block_;
  bool swallowing_ = false;
  bool closed_ = false;
  bool refused_ = false;
  std::string buffer_;
  std::string transcript_;
};

}  // namespace

bool elastripe::fuzz::accepts(std::string_view input) {
  Session whole;
  whole.receive(input);
  Session pieces;
  for (size_t i = 0; i < input.size(); ++i) pieces.receive(input.substr(i, 1));
  CHECK(whole.transcript() == pieces.transcript());
  return whole.was_understood();
}

std::vector<std::string> elastripe::fuzz::seeds() {
  std::vector<std::string> samples = client_samples();
  std::string all;
  for (const std::string& sample : samples) {
    Session session;
    session.receive(sample);
    all += session.transcript();
  }
  for (int i = 0; i < kCommandCount; ++i) {
    if (static_cast<Command>(i) == Command::kWatch) continue;  // always refused
    const std::string_view word = name(static_cast<Command>(i));
    CHECK(all.contains(fmt::format("({} ", word)), "no seed has a command {}", word);
  }
  return samples;
}
