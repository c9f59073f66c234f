// memcached's binary protocol: its requests, and what its responses begin with. Pure: no I/O.
// Grammar and answers are those of memcached 1.6.18.
#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/memcache/output.h"
#include "proxy/memcache/parse.h"

namespace elastripe::memcache {

inline constexpr char kBinaryMagic = '\x80';  // the first byte of a binary request, of no text line
inline constexpr size_t kBinaryHeaderBytes = 24;

// Values are on the wire.
enum class BinaryOpcode : uint8_t {
  kGet = 0x00,
  kSet = 0x01,
  kAdd = 0x02,
  kReplace = 0x03,
  kDelete = 0x04,
  kIncrement = 0x05,
  kDecrement = 0x06,
  kQuit = 0x07,
  kFlush = 0x08,
  kGetQ = 0x09,
  kNoop = 0x0a,
  kVersion = 0x0b,
  kGetK = 0x0c,
  kGetKQ = 0x0d,
  kAppend = 0x0e,
  kPrepend = 0x0f,
  kStat = 0x10,
  kSetQ = 0x11,
  kAddQ = 0x12,
  kReplaceQ = 0x13,
  kDeleteQ = 0x14,
  kIncrementQ = 0x15,
  kDecrementQ = 0x16,
  kQuitQ = 0x17,
  kFlushQ = 0x18,
  kAppendQ = 0x19,
  kPrependQ = 0x1a,
  kTouch = 0x1c,
  kGat = 0x1d,
  kGatQ = 0x1e,
  kSaslMechanisms = 0x20,
  kSaslAuth = 0x21,
  kSaslStep = 0x22,
  kGatK = 0x23,
  kGatKQ = 0x24,
};

// What is usual is not answered: a success, or the miss of a retrieval.
bool is_quiet(BinaryOpcode opcode);
// The response to a retrieval has the key.
bool answers_key(BinaryOpcode opcode);

enum class BinaryStatus : uint16_t {
  kOk = 0x00,
  kNotFound = 0x01,
  kExists = 0x02,
  kTooLarge = 0x03,
  kInvalid = 0x04,
  kNotStored = 0x05,
  kNotNumber = 0x06,
  kUnauthenticated = 0x20,
  kUnknownCommand = 0x81,
  kNoMemory = 0x82,
  kTemporaryFailure = 0x86,
};
// memcached's words.
std::string_view text_of(BinaryStatus status);

// As RequestParser::parse(), of an input that begins with kBinaryMagic. It stops before the value
// of a storage command, which has no terminator.
ParseResult parse_binary(std::string_view input, Request& request);

struct BinaryResponse {
  BinaryHead to;  // of the request
  BinaryStatus status = BinaryStatus::kOk;
  uint64_t cas = 0;
  std::string_view extras = {};
  std::string_view key = {};
  uint64_t value_bytes = 0;  // what follows
};
void compose_binary(Output& output, const BinaryResponse& response);

// The least significant byte last.
std::string big_endian(uint64_t number, size_t bytes);

}  // namespace elastripe::memcache
