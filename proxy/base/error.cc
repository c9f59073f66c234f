#include "proxy/base/error.h"

#include <cstdlib>

namespace elastripe {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kDisconnected:
      return "disconnected";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kNotSent:
      return "not_sent";
    case ErrorCode::kBusy:
      return "busy";
    case ErrorCode::kTooFewNodes:
      return "too_few_nodes";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kStaleEpoch:
      return "stale_epoch";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kUnknownOutcome:
      return "unknown_outcome";
    case ErrorCode::kNoSpace:
      return "no_space";
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kTooLarge:
      return "too_large";
    case ErrorCode::kLost:
      return "lost";
  }
  std::abort();
}

std::string to_string(const Error& error) {
  return fmt::format("{}: {}", name(error.code), error.message);
}

}  // namespace elastripe
