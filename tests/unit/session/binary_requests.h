// Requests of the binary protocol, and the responses to them.
#pragma once

#include <string>
#include <string_view>

#include "proxy/memcache/binary.h"

namespace elastripe {

// A request of the binary protocol with the opaque "wxyz".
inline std::string binary_request(memcache::BinaryOpcode opcode, std::string_view extras = {},
                                  std::string_view key = {}, std::string_view value = {},
                                  uint64_t cas = 0) {
  std::string request("\x80");
  request += static_cast<char>(opcode);
  request += memcache::big_endian(key.size(), 2);
  request += static_cast<char>(extras.size());
  request += std::string(3, '\0');
  request += memcache::big_endian(extras.size() + key.size() + value.size(), 4);
  request += "wxyz";
  request += memcache::big_endian(cas, 8);
  return request.append(extras).append(key).append(value);
}

inline std::string binary_response(memcache::BinaryOpcode opcode, memcache::BinaryStatus status,
                                   uint64_t cas = 0, std::string_view extras = {},
                                   std::string_view key = {}, std::string_view value = {}) {
  memcache::Output output;
  memcache::compose_binary(output, {.to = {static_cast<uint8_t>(opcode), 0x7778797a},
                                    .status = status,
                                    .cas = cas,
                                    .extras = extras,
                                    .key = key,
                                    .value_bytes = value.size()});
  output.append(value);
  return output.flatten();
}

}  // namespace elastripe
