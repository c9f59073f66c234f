// The lines memcached 1.6.18 answers, without their line end: clients match on them.
#pragma once

#include <string_view>

namespace elastripe::memcache::replies {

inline constexpr std::string_view kStored = "STORED";
inline constexpr std::string_view kNotStored = "NOT_STORED";
inline constexpr std::string_view kExists = "EXISTS";
inline constexpr std::string_view kNotFound = "NOT_FOUND";
inline constexpr std::string_view kDeleted = "DELETED";
inline constexpr std::string_view kTouched = "TOUCHED";
inline constexpr std::string_view kOk = "OK";
inline constexpr std::string_view kEnd = "END";
inline constexpr std::string_view kReset = "RESET";

inline constexpr std::string_view kError = "ERROR";
inline constexpr std::string_view kShutdownDisabled = "ERROR: shutdown not enabled";
inline constexpr std::string_view kBadLine = "CLIENT_ERROR bad command line format";
inline constexpr std::string_view kBadDelete =
    "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
inline constexpr std::string_view kBadDataChunk = "CLIENT_ERROR bad data chunk";
inline constexpr std::string_view kBadDetail = "CLIENT_ERROR usage: stats detail on|off|dump";
inline constexpr std::string_view kBadExptime = "CLIENT_ERROR invalid exptime argument";
inline constexpr std::string_view kFlushNotAllowed = "CLIENT_ERROR flush_all not allowed";
inline constexpr std::string_view kBadDelta = "CLIENT_ERROR invalid numeric delta argument";
inline constexpr std::string_view kNonNumeric =
    "CLIENT_ERROR cannot increment or decrement non-numeric value";
inline constexpr std::string_view kInvalidFlag = "CLIENT_ERROR invalid flag";
inline constexpr std::string_view kTooManyFlags = "CLIENT_ERROR options flags are too long";
inline constexpr std::string_view kDuplicateFlag = "CLIENT_ERROR duplicate flag";
inline constexpr std::string_view kBadToken = "CLIENT_ERROR bad token in command line format";
inline constexpr std::string_view kOpaqueTooLong = "CLIENT_ERROR opaque token too long";
inline constexpr std::string_view kMemlimitTooSmall =
    "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
inline constexpr std::string_view kMemlimitTooLarge =
    "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes";
inline constexpr std::string_view kMetaNoop = "MN";
inline constexpr std::string_view kTooLarge = "SERVER_ERROR object too large for cache";
inline constexpr std::string_view kOutOfMemory = "SERVER_ERROR out of memory storing object";

// Ours: memcached closes such connections without a word.
inline constexpr std::string_view kLineTooLong = "CLIENT_ERROR line too long";
inline constexpr std::string_view kTooManyKeys = "CLIENT_ERROR too many keys";

}  // namespace elastripe::memcache::replies
