// memcached's binary protocol, as far as it is answered: that it is not spoken here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace elastripe::memcache {

inline constexpr char kBinaryMagic = '\x80';  // the first byte of a binary request, of no text line
inline constexpr size_t kBinaryHeaderBytes = 24;

// The error response to the request with that header, as memcached's to a command that it does not
// know: such a client fails at once, where a line of text would keep it waiting for the rest of a
// header.
std::string refuse_binary(std::string_view header);

}  // namespace elastripe::memcache
