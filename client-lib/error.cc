#include "client-lib/error.h"

namespace elastripe::client {

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kNotFound:
      return "not_found";
    case ErrorKind::kOutOfRange:
      return "out_of_range";
    case ErrorKind::kExists:
      return "exists";
    case ErrorKind::kInvalid:
      return "invalid";
    case ErrorKind::kConnection:
      return "connection";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kServer:
      return "server";
    case ErrorKind::kUnknownOutcome:
      return "unknown_outcome";
  }
  return "unknown";
}

bool Error::may_have_taken_effect() const {
  return !is_unsent && (kind == ErrorKind::kConnection || kind == ErrorKind::kTimeout ||
                        kind == ErrorKind::kUnknownOutcome);
}

}  // namespace elastripe::client
