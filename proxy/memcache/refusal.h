// Why a request is refused: what any dialect of the protocol can tell in its own way.
#pragma once

#include <cstdint>
#include <string_view>

namespace elastripe::memcache {

enum class RefusalCode : uint8_t {
  kNone,            // it is not refused, or nothing is to be answered
  kUnknownCommand,  // no such command, or not with so many words
  kInvalid,         // its arguments, its value or its length
  kNotAllowed,      // here
  kTooLarge,        // the value
  kUnauthenticated  // the client has not said who it is, or not so that it is believed
};

// The code is for dialects that have numbers, the line for those that have text.
struct Refusal {
  RefusalCode code = RefusalCode::kNone;
  std::string_view line = {};  // static, without line end

  explicit operator bool() const { return code != RefusalCode::kNone; }
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

}  // namespace elastripe::memcache
