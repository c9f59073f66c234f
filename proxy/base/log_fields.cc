#include "proxy/base/log_fields.h"

#include <fmt/core.h>

#include <algorithm>

namespace elastripe {
namespace {

bool is_plain(std::string_view value) {
  constexpr std::string_view kPlain = "-_.:/,";
  return !value.empty() && std::ranges::all_of(value, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kPlain.contains(c);
  });
}

std::string quoted(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  return text + '"';
}

}  // namespace

LogFields& LogFields::add(std::string_view name, std::string_view value) {
  return is_plain(value) ? add_plain(name, value) : add_plain(name, quoted(value));
}

LogFields& LogFields::add_seconds(std::string_view name, double seconds) {
  return add_plain(name, fmt::format("{:.3f}", seconds));
}

LogFields& LogFields::add_plain(std::string_view name, std::string_view value) {
  text_ += fmt::format("{}{}={}", text_.empty() ? "" : " ", name, value);
  return *this;
}

}  // namespace elastripe
