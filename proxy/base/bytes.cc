#include "proxy/base/bytes.h"

#include <algorithm>

namespace elastripe {

std::string one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(line, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }, ' ');
  return line;
}

std::string escape_for_log(std::string_view key, size_t cap) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : key.substr(0, cap)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f && c != '\\' && c != '"' && c != '\'') {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  if (key.size() > cap) out += "...";
  return out;
}

}  // namespace elastripe
