// Numbers as memcached reads them in text.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace elastripe::memcache {

// Like strtol but for white space and overflow: an optional sign, then digits to the token's end.
template <class Number>
std::optional<Number> parse_number(std::string_view token) {
  if (token.starts_with('+')) {
    token.remove_prefix(1);
    if (token.starts_with('-')) return std::nullopt;
  }
  Number number{};
  const char* begin = token.data();
  const char* end = begin + token.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

// memcached reads 64 bits and keeps the lower 32: 4294967295 is -1, expired already.
inline std::optional<int64_t> parse_exptime(std::string_view token) {
  const auto exptime = parse_number<int64_t>(token);
  if (!exptime) return std::nullopt;
  return static_cast<int32_t>(*exptime);
}

}  // namespace elastripe::memcache
