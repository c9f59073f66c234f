#include "proxy/base/bytes.h"

#include <algorithm>

namespace elastripe {

std::string one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(line, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }, ' ');
  return line;
}

namespace {

template <class IsPlain>
std::string escaped(std::string_view text, size_t cap, const IsPlain& is_plain) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, cap)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && is_plain(c)) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  if (text.size() > cap) out += "...";
  return out;
}

}  // namespace

std::string shown_on_line(std::string_view text, size_t cap) {
  return escaped(text, cap, [](char) { return true; });
}

std::string escape_for_log(std::string_view key, size_t cap) {
  return escaped(key, cap, [](char c) { return c != ' ' && c != '\\' && c != '"' && c != '\''; });
}

}  // namespace elastripe
