// What can go wrong: errors as values, of the same kinds as in the Python client.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace elastripe::client {

enum class ErrorKind : uint8_t {
  kNotFound,        // no object under this key, or no such job
  kOutOfRange,      // the object ends before the bytes do; nothing was done
  kExists,          // its cas unique is another one; nothing was done
  kInvalid,         // refused here: key, number or object out of bounds; nothing was sent
  kConnection,      // no connection, or it broke; a write may have taken effect
  kTimeout,         // no answer in time; a write may have taken effect
  kServer,          // SERVER_ERROR, CLIENT_ERROR or ERROR; the message is the server's
  kUnknownOutcome,  // an error that says "outcome unknown": a write may have taken effect
};

// The kind as text in snake case ("not_found").
std::string_view name(ErrorKind kind);

struct Error {
  ErrorKind kind;
  std::string message;     // one line
  bool is_unsent = false;  // it came before the request: there was no connection to send it on

  // Whether a write that ended so may have taken effect, or may yet. If not, nothing was done.
  bool may_have_taken_effect() const;
};

template <class T = void>
using Result = std::expected<T, Error>;

}  // namespace elastripe::client
