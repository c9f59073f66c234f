// CHECK(condition) and CHECK(condition, "format {}", value...): a bug aborts the process with the
// condition, the message and the place. On in every build. Never for what a client, a peer or the
// configuration can cause: those are Errors.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace elastripe::internal {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);

inline std::string check_message() { return {}; }

template <class... Args>
std::string check_message(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::vformat(format, fmt::make_format_args(args...));
}

}  // namespace elastripe::internal

// The long name is for headers: unit tests may have Catch2's CHECK in the place of ours.
#define ELASTRIPE_CHECK(condition, ...)                                                       \
  do {                                                                                        \
    if (!(condition)) [[unlikely]] {                                                          \
      ::elastripe::internal::check_failed(__FILE__, __LINE__, #condition,                     \
                                          ::elastripe::internal::check_message(__VA_ARGS__)); \
    }                                                                                         \
  } while (false)

#ifndef CHECK
#define CHECK(...) ELASTRIPE_CHECK(__VA_ARGS__)
#endif
