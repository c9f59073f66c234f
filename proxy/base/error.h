// Operational errors are values: Result<T> carries a T or an Error. Bugs abort through CHECK.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace elastripe {

enum class ErrorCode : uint8_t {
  kNotFound,        // no such key, node, partition, ...
  kTimeout,         // no answer within the deadline; it may still have been executed
  kDisconnected,    // the connection broke, or brought nonsense: it may have been executed
  kUnavailable,     // never sent, or nobody to ask: definitely not executed
  kNotSent,         // the deadline came before the request could leave: definitely not executed
  kBusy,            // too many requests wait already: definitely not executed
  kTooFewNodes,     // not enough live nodes for what the pool promises; not executed
  kCancelled,       // the flow was told to stop
  kStaleEpoch,      // the other side is at another epoch or incarnation
  kConflict,        // a compare-and-set found another version
  kUnknownOutcome,  // the operation may or may not have taken effect
  kNoSpace,         // out of memory for the item
  kInvalid,         // malformed input or argument
  kTooLarge,        // above a configured or protocol limit
  kLost,            // the data is gone with more failures than the scheme survives
};

// The code as text in snake case ("not_found"), for logs and metric labels.
std::string_view name(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;  // one line, without values; keys are escaped (bytes.h)
};

// "not_found: message".
std::string to_string(const Error& error);

template <class T = void>
using Result = std::expected<T, Error>;

// return fail(ErrorCode::kInvalid, "length {} is above {}", length, limit);
template <class... Args>
std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::vformat(format, fmt::make_format_args(args...))});
}

// Hands the error of one Result on as the error of another.
inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }

}  // namespace elastripe
