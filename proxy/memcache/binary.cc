#include "proxy/memcache/binary.h"

#include "proxy/base/check.h"

namespace elastripe::memcache {
namespace {

// Places in the header, of requests and responses alike; numbers are big endian.
constexpr size_t kOpcodeAt = 1;
constexpr size_t kStatusAt = 6;
constexpr size_t kBodyBytesAt = 8;
constexpr size_t kOpaqueAt = 12;
constexpr size_t kOpaqueBytes = 4;

constexpr char kResponseMagic = '\x81';
constexpr char kUnknownCommand = '\x81';
constexpr std::string_view kReason = "The binary protocol is not supported: use the text protocol";
static_assert(kReason.size() < 256);

}  // namespace

std::string refuse_binary(std::string_view header) {
  CHECK(header.size() >= kBinaryHeaderBytes);
  std::string response(kBinaryHeaderBytes, '\0');
  response[0] = kResponseMagic;
  response[kOpcodeAt] = header[kOpcodeAt];
  response[kStatusAt + 1] = kUnknownCommand;
  response[kBodyBytesAt + 3] = static_cast<char>(kReason.size());
  response.replace(kOpaqueAt, kOpaqueBytes, header.substr(kOpaqueAt, kOpaqueBytes));
  response += kReason;
  return response;
}

}  // namespace elastripe::memcache
