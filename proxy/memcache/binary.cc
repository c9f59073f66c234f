#include "proxy/memcache/binary.h"

#include <array>
#include <optional>
#include <span>
#include <utility>

#include "proxy/memcache/replies.h"

namespace elastripe::memcache {
namespace {

constexpr char kResponseMagic = '\x81';
// Places in the header, of requests and responses alike; numbers are big endian.
constexpr size_t kOpcodeAt = 1;
constexpr size_t kKeyBytesAt = 2;
constexpr size_t kExtraBytesAt = 4;
constexpr size_t kStatusAt = 6;
constexpr size_t kBodyBytesAt = 8;
constexpr size_t kOpaqueAt = 12;
constexpr size_t kCasAt = 16;
constexpr size_t kFlagsBytes = 4;
constexpr size_t kExptimeBytes = 4;
constexpr size_t kNumberBytes = 8;
constexpr size_t kCounterExtraBytes = 2 * kNumberBytes + kExptimeBytes;
constexpr int64_t kCreatesNothing = UINT32_MAX;  // the exptime of a counter

uint64_t number_at(std::string_view bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (const char byte : bytes.substr(at, count)) {
    number = number << 8 | static_cast<unsigned char>(byte);
  }
  return number;
}

void put_number(uint64_t number, std::span<char> to) {
  for (size_t i = to.size(); i > 0; --i, number >>= 8) to[i - 1] = static_cast<char>(number & 0xff);
}

struct Header {
  explicit Header(std::string_view bytes)
      : opcode(static_cast<BinaryOpcode>(bytes[kOpcodeAt])),
        key_bytes(number_at(bytes, kKeyBytesAt, 2)),
        extra_bytes(number_at(bytes, kExtraBytesAt, 1)),
        body_bytes(number_at(bytes, kBodyBytesAt, 4)),
        opaque(static_cast<uint32_t>(number_at(bytes, kOpaqueAt, 4))),
        cas(number_at(bytes, kCasAt, kNumberBytes)) {}

  // Extras, key and value.
  bool has(size_t extras) const { return extra_bytes == extras; }
  bool is_key_only() const { return key_bytes > 0 && body_bytes == key_bytes + extra_bytes; }
  bool is_bare() const { return key_bytes == 0 && body_bytes == extra_bytes; }

  BinaryOpcode opcode;
  size_t key_bytes;
  size_t extra_bytes;
  size_t body_bytes;
  uint32_t opaque;
  uint64_t cas;
};

// Nothing: it is none that is known.
std::optional<Command> command_of(BinaryOpcode opcode) {
  switch (opcode) {
    case BinaryOpcode::kGet:
    case BinaryOpcode::kGetQ:
    case BinaryOpcode::kGetK:
    case BinaryOpcode::kGetKQ:
      return Command::kGet;
    case BinaryOpcode::kGat:
    case BinaryOpcode::kGatQ:
    case BinaryOpcode::kGatK:
    case BinaryOpcode::kGatKQ:
    case BinaryOpcode::kTouch:  // it answers the client's flags
      return Command::kGat;
    case BinaryOpcode::kSet:
    case BinaryOpcode::kSetQ:
      return Command::kSet;
    case BinaryOpcode::kAdd:
    case BinaryOpcode::kAddQ:
      return Command::kAdd;
    case BinaryOpcode::kReplace:
    case BinaryOpcode::kReplaceQ:
      return Command::kReplace;
    case BinaryOpcode::kAppend:
    case BinaryOpcode::kAppendQ:
      return Command::kAppend;
    case BinaryOpcode::kPrepend:
    case BinaryOpcode::kPrependQ:
      return Command::kPrepend;
    case BinaryOpcode::kDelete:
    case BinaryOpcode::kDeleteQ:
      return Command::kDelete;
    case BinaryOpcode::kIncrement:
    case BinaryOpcode::kIncrementQ:
      return Command::kIncr;
    case BinaryOpcode::kDecrement:
    case BinaryOpcode::kDecrementQ:
      return Command::kDecr;
    case BinaryOpcode::kQuit:
    case BinaryOpcode::kQuitQ:
      return Command::kQuit;
    case BinaryOpcode::kFlush:
    case BinaryOpcode::kFlushQ:
      return Command::kFlushAll;
    case BinaryOpcode::kNoop:
      return Command::kMetaNoop;
    case BinaryOpcode::kVersion:
      return Command::kVersion;
    case BinaryOpcode::kStat:
      return Command::kStats;
    case BinaryOpcode::kSaslMechanisms:
      return Command::kSaslMechanisms;
    case BinaryOpcode::kSaslAuth:
      return Command::kSaslAuth;
    case BinaryOpcode::kSaslStep:
      return Command::kSaslStep;
  }
  return std::nullopt;
}

// Whether the parts of the request are those of its command.
bool is_well_formed(const Header& header, Command command) {
  switch (command) {
    case Command::kGet:
    case Command::kDelete:
      return header.has(0) && header.is_key_only();
    case Command::kGat:
      return header.has(kExptimeBytes) && header.is_key_only();
    case Command::kSet:
    case Command::kAdd:
    case Command::kReplace:
      return header.has(kFlagsBytes + kExptimeBytes) && header.key_bytes > 0;
    case Command::kAppend:
    case Command::kPrepend:
    case Command::kSaslAuth:
    case Command::kSaslStep:
      return header.has(0) && header.key_bytes > 0;
    case Command::kIncr:
    case Command::kDecr:
      return header.has(kCounterExtraBytes) && header.is_key_only();
    case Command::kFlushAll:
      return (header.has(0) || header.has(kExptimeBytes)) && header.is_bare();
    case Command::kStats:
      return header.has(0) && header.body_bytes == header.key_bytes;
    default:
      return header.has(0) && header.is_bare();
  }
}

// Times have no sign, as in memcached: above 30 days they are Unix times, up to 2106.
void read_extras(const Header& header, std::string_view extras, Request& request) {
  const auto number = [&](size_t at, size_t bytes) { return number_at(extras, at, bytes); };
  switch (request.command) {
    case Command::kSet:
    case Command::kAdd:
    case Command::kReplace:
      request.flags = static_cast<uint32_t>(number(0, kFlagsBytes));
      request.exptime = static_cast<int64_t>(number(kFlagsBytes, kExptimeBytes));
      break;
    case Command::kGat:
      request.exptime = static_cast<int64_t>(number(0, kExptimeBytes));
      break;
    case Command::kFlushAll:
      if (header.extra_bytes > 0) request.exptime = static_cast<int64_t>(number(0, kExptimeBytes));
      break;
    case Command::kIncr:
    case Command::kDecr: {
      request.delta = number(0, kNumberBytes);
      request.initial = number(kNumberBytes, kNumberBytes);
      const auto exptime = static_cast<int64_t>(number(2 * kNumberBytes, kExptimeBytes));
      if (exptime != kCreatesNothing) request.creates = exptime;
      break;
    }
    default:
      break;
  }
}

ParseResult refuse(Refusal refusal, size_t consumed, bool close) {
  return {
      .status = ParseStatus::kInvalid, .consumed = consumed, .refusal = refusal, .close = close};
}

}  // namespace

bool is_quiet(BinaryOpcode opcode) {
  switch (opcode) {
    case BinaryOpcode::kGetQ:
    case BinaryOpcode::kGetKQ:
    case BinaryOpcode::kSetQ:
    case BinaryOpcode::kAddQ:
    case BinaryOpcode::kReplaceQ:
    case BinaryOpcode::kDeleteQ:
    case BinaryOpcode::kIncrementQ:
    case BinaryOpcode::kDecrementQ:
    case BinaryOpcode::kQuitQ:
    case BinaryOpcode::kFlushQ:
    case BinaryOpcode::kAppendQ:
    case BinaryOpcode::kPrependQ:
    case BinaryOpcode::kGatQ:
    case BinaryOpcode::kGatKQ:
      return true;
    default:
      return false;
  }
}

bool answers_key(BinaryOpcode opcode) {
  return opcode == BinaryOpcode::kGetK || opcode == BinaryOpcode::kGetKQ ||
         opcode == BinaryOpcode::kGatK || opcode == BinaryOpcode::kGatKQ;
}

std::string_view text_of(BinaryStatus status) {
  switch (status) {
    case BinaryStatus::kOk:
      return "";
    case BinaryStatus::kNotFound:
      return "Not found";
    case BinaryStatus::kExists:
      return "Data exists for key.";
    case BinaryStatus::kTooLarge:
      return "Too large.";
    case BinaryStatus::kInvalid:
      return "Invalid arguments";
    case BinaryStatus::kNotStored:
      return "Not stored.";
    case BinaryStatus::kNotNumber:
      return "Non-numeric server-side value for incr or decr";
    case BinaryStatus::kUnauthenticated:
      return "Auth failure.";
    case BinaryStatus::kUnknownCommand:
      return "Unknown command";
    case BinaryStatus::kNoMemory:
      return "Out of memory";
    case BinaryStatus::kTemporaryFailure:
      return "Temporary failure";
  }
  return "";
}

ParseResult parse_binary(std::string_view input, Request& request) {
  if (input.size() < kBinaryHeaderBytes) return {};
  const Header header(input);
  request.clear();
  request.binary = BinaryHead{static_cast<uint8_t>(header.opcode), header.opaque};
  if (header.key_bytes + header.extra_bytes > header.body_bytes) {
    return refuse(replies::kUnknownOpcode, input.size(), /*close=*/true);
  }
  const auto command = command_of(header.opcode);
  if (!command) {
    ParseResult result = refuse(replies::kUnknownOpcode, kBinaryHeaderBytes, /*close=*/false);
    result.swallow_bytes = header.body_bytes;
    return result;
  }
  if (header.key_bytes > kMaxKeyBytes || !is_well_formed(header, *command)) {
    return refuse(replies::kInvalidArguments, input.size(), /*close=*/true);
  }
  const size_t head_bytes = kBinaryHeaderBytes + header.extra_bytes + header.key_bytes;
  if (input.size() < head_bytes) return {};
  request.command = *command;
  const std::string_view key = input.substr(head_bytes - header.key_bytes, header.key_bytes);
  if (*command == Command::kStats) {
    request.argument = key;
  } else if (*command == Command::kGet || *command == Command::kGat) {
    request.keys.push_back(key);
  } else {
    request.key = key;
  }
  request.cas_unique = header.cas;
  read_extras(header, input.substr(kBinaryHeaderBytes, header.extra_bytes), request);
  if (is_storage(*command) || is_sasl_login(*command)) {
    request.value_bytes =
        static_cast<uint32_t>(header.body_bytes + kBinaryHeaderBytes - head_bytes);
  }
  return {.status = ParseStatus::kRequest, .consumed = head_bytes};
}

std::string big_endian(uint64_t number, size_t bytes) {
  std::string text(bytes, '\0');
  put_number(number, text);
  return text;
}

// Every answer has one: it takes no memory.
void compose_binary(Output& output, const BinaryResponse& response) {
  const uint64_t body = response.extras.size() + response.key.size() + response.value_bytes;
  std::array<char, kBinaryHeaderBytes> header{};
  const auto put = [&](size_t at, size_t bytes, uint64_t number) {
    put_number(number, std::span(header).subspan(at, bytes));
  };
  header[0] = kResponseMagic;
  header[kOpcodeAt] = static_cast<char>(response.to.opcode);
  put(kKeyBytesAt, 2, response.key.size());
  put(kExtraBytesAt, 1, response.extras.size());
  put(kStatusAt, 2, std::to_underlying(response.status));
  put(kBodyBytesAt, 4, body);
  put(kOpaqueAt, 4, response.to.opaque);
  put(kCasAt, kNumberBytes, response.cas);
  output.append(std::string_view(header.data(), header.size()));
  output.append(response.extras);
  output.append(response.key);
}

}  // namespace elastripe::memcache
