// How functions of this library end with an error.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "client-lib/error.h"

namespace elastripe::client {

inline std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}

// The connection can not be used further: what comes next on it belongs to no later request.
inline std::unexpected<Error> not_understood(std::string_view answer) {
  return fail(ErrorKind::kConnection,
              "the server's answer is not understood: " + std::string(answer));
}

// The error that a server tells with `reason`, whichever word comes before it.
inline Error refusal(std::string reason) {
  const bool is_unknown = reason.contains("outcome unknown");
  return Error{is_unknown ? ErrorKind::kUnknownOutcome : ErrorKind::kServer, std::move(reason)};
}

// Whether the server refused because it serves nothing now: another one may.
inline bool is_not_serving(const Error& error) {
  return error.kind == ErrorKind::kServer && error.message.starts_with("not serving");
}

}  // namespace elastripe::client
