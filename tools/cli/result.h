// Failures of the command-line tool: one line for the user.
#pragma once

#include <fmt/core.h>

#include <expected>
#include <string>

namespace elastripe::cli {

template <class T = void>
using Result = std::expected<T, std::string>;

// return fail("cannot read {}: {}", path, reason);
template <class... Args>
std::unexpected<std::string> fail(fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(fmt::vformat(format, fmt::make_format_args(args...)));
}

}  // namespace elastripe::cli
