// The log of the process: lines on standard error with time and level, from any thread.
//
// Keys go through escape_for_log (bytes.h); values and secrets are never logged.
#pragma once

#include <fmt/core.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace elastripe {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// As the configuration names them.
inline constexpr std::array<std::pair<LogLevel, std::string_view>, 5> kLogLevels{{
    {LogLevel::kDebug, "debug"},
    {LogLevel::kInfo, "info"},
    {LogLevel::kWarning, "warning"},
    {LogLevel::kError, "error"},
    {LogLevel::kOff, "off"},
}};

// Lines below the level are dropped; kInfo until this is called.
void set_log_level(LogLevel level);

bool log_enabled(LogLevel level);
void write_log(LogLevel level, std::string_view line);

template <class... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) write_log(level, fmt::vformat(format, fmt::make_format_args(args...)));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_at<Args...>(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_at<Args...>(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_at<Args...>(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_at<Args...>(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace elastripe
