// The lines memcached 1.6.18 answers, without their line end: clients match on them.
#pragma once

#include <string_view>

#include "proxy/memcache/refusal.h"

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

inline constexpr std::string_view kNonNumeric =
    "CLIENT_ERROR cannot increment or decrement non-numeric value";
inline constexpr std::string_view kMetaNoop = "MN";
inline constexpr std::string_view kMetaDone = "HD";
inline constexpr std::string_view kMetaNotFound = "NF";
inline constexpr std::string_view kMetaExists = "EX";
inline constexpr std::string_view kMetaNotStored = "NS";
inline constexpr std::string_view kOutOfMemory = "SERVER_ERROR out of memory storing object";

// Refusals.
inline constexpr Refusal kError{RefusalCode::kUnknownCommand, "ERROR"};
inline constexpr Refusal kShutdownDisabled{RefusalCode::kNotAllowed, "ERROR: shutdown not enabled"};
inline constexpr Refusal kBadLine{RefusalCode::kInvalid, "CLIENT_ERROR bad command line format"};
inline constexpr Refusal kBadDelete{
    RefusalCode::kInvalid, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"};
inline constexpr Refusal kBadDataChunk{RefusalCode::kInvalid, "CLIENT_ERROR bad data chunk"};
inline constexpr Refusal kBadDetail{RefusalCode::kInvalid,
                                    "CLIENT_ERROR usage: stats detail on|off|dump"};
inline constexpr Refusal kBadExptime{RefusalCode::kInvalid,
                                     "CLIENT_ERROR invalid exptime argument"};
inline constexpr Refusal kFlushNotAllowed{RefusalCode::kNotAllowed,
                                          "CLIENT_ERROR flush_all not allowed"};
inline constexpr Refusal kBadDelta{RefusalCode::kInvalid,
                                   "CLIENT_ERROR invalid numeric delta argument"};
inline constexpr Refusal kInvalidFlag{RefusalCode::kInvalid, "CLIENT_ERROR invalid flag"};
inline constexpr Refusal kTooManyFlags{RefusalCode::kInvalid,
                                       "CLIENT_ERROR options flags too long"};
inline constexpr Refusal kTooManyFlagsOfGet{RefusalCode::kInvalid,
                                            "CLIENT_ERROR options flags are too long"};
inline constexpr Refusal kDuplicateFlag{RefusalCode::kInvalid, "CLIENT_ERROR duplicate flag"};
inline constexpr Refusal kBadToken{RefusalCode::kInvalid,
                                   "CLIENT_ERROR bad token in command line format"};
inline constexpr Refusal kOpaqueTooLong{RefusalCode::kInvalid,
                                        "CLIENT_ERROR opaque token too long"};
inline constexpr Refusal kBadBase64{RefusalCode::kInvalid, "CLIENT_ERROR error decoding key"};
inline constexpr Refusal kBadModeLength{RefusalCode::kInvalid,
                                        "CLIENT_ERROR incorrect length for M token"};
inline constexpr Refusal kBadSetMode{RefusalCode::kInvalid,
                                     "CLIENT_ERROR invalid mode for ms M token"};
inline constexpr Refusal kBadArithmeticMode{RefusalCode::kInvalid,
                                            "CLIENT_ERROR invalid mode for ma M token"};
inline constexpr Refusal kBadFlag{RefusalCode::kInvalid, "CLIENT_ERROR invalid or duplicate flag"};
inline constexpr Refusal kBadInitial{RefusalCode::kInvalid,
                                     "CLIENT_ERROR invalid numeric initial value"};
inline constexpr Refusal kBadMetaDelta{RefusalCode::kInvalid,
                                       "CLIENT_ERROR invalid numeric delta value"};
inline constexpr Refusal kMemlimitTooSmall{
    RefusalCode::kInvalid, "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"};
inline constexpr Refusal kMemlimitTooLarge{
    RefusalCode::kInvalid, "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"};
inline constexpr Refusal kHotAndWarmTooLarge{RefusalCode::kInvalid,
                                             "ERROR hot and warm pcts must not exceed 80"};
inline constexpr Refusal kBadAgeFactor{RefusalCode::kInvalid,
                                       "ERROR hot/warm age factors must be greater than 0"};
inline constexpr Refusal kSleepTooLong{RefusalCode::kInvalid,
                                       "CLIENT_ERROR sleep must be one second or less"};
inline constexpr Refusal kBadClass{RefusalCode::kInvalid, "BADCLASS invalid class id"};
inline constexpr Refusal kIllegalSlab{RefusalCode::kInvalid, "CLIENT_ERROR Illegal slab id"};
inline constexpr Refusal kReassignDisabled{RefusalCode::kNotAllowed,
                                           "CLIENT_ERROR slab reassignment disabled"};
inline constexpr Refusal kWatchNotAllowed{RefusalCode::kNotAllowed,
                                          "CLIENT_ERROR watch commands not allowed"};
inline constexpr Refusal kMetadumpNotAllowed{RefusalCode::kNotAllowed,
                                             "ERROR metadump not allowed"};
inline constexpr Refusal kCachedumpNotAllowed{RefusalCode::kNotAllowed,
                                              "CLIENT_ERROR stats cachedump not allowed"};
inline constexpr Refusal kAlreadyListing{RefusalCode::kNotAllowed,
                                         "BUSY currently processing crawler request"};
inline constexpr Refusal kBadCachedump{RefusalCode::kInvalid, "CLIENT_ERROR bad command line"};
inline constexpr Refusal kTooLarge{RefusalCode::kTooLarge,
                                   "SERVER_ERROR object too large for cache"};

inline constexpr Refusal kUnauthenticated{RefusalCode::kUnauthenticated,
                                          "CLIENT_ERROR unauthenticated"};
inline constexpr Refusal kLoginFailed{RefusalCode::kUnauthenticated,
                                      "CLIENT_ERROR authentication failure"};
inline constexpr Refusal kBadLogin{RefusalCode::kUnauthenticated,
                                   "CLIENT_ERROR bad authentication token format"};

// Ours: memcached closes such connections without a word.
inline constexpr Refusal kLineTooLong{RefusalCode::kInvalid, "CLIENT_ERROR line too long"};
inline constexpr Refusal kTooManyKeys{RefusalCode::kInvalid, "CLIENT_ERROR too many keys"};
// For binary requests, whose answers have no lines.
inline constexpr Refusal kUnknownOpcode{RefusalCode::kUnknownCommand};
inline constexpr Refusal kInvalidArguments{RefusalCode::kInvalid};

}  // namespace elastripe::memcache::replies
