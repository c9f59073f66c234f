// Views of bytes, and keys as text that is safe to log.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace elastripe {

using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string_view as_string_view(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A text of somebody else, fit for the middle of a line: control bytes become spaces.
std::string one_line(std::string_view text);

// What somebody has typed, for messages to them: bytes that are not printable ASCII become \xHH,
// and what follows the first `cap` bytes becomes "...".
std::string shown_on_line(std::string_view text, size_t cap);

// A key for logs and messages: bytes outside 0x21..0x7e, backslashes and quotes become \xHH, and
// what follows the first `cap` bytes becomes "...". The result holds no space and no line break.
std::string escape_for_log(std::string_view key, size_t cap = 80);
inline std::string escape_for_log(ByteView key, size_t cap = 80) {
  return escape_for_log(as_string_view(key), cap);
}

}  // namespace elastripe
