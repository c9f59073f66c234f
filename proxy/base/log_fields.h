// LogFields: what a line of the log tells, for programs that read logs: name=value, with spaces
// between them.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace elastripe {

class LogFields {
 public:
  // What is no plain word is quoted; quotes, backslashes and what is not printable are escaped.
  LogFields& add(std::string_view name, std::string_view value);
  LogFields& add(std::string_view name, std::integral auto number) {
    return add_plain(name, std::to_string(number));
  }
  // To the millisecond.
  LogFields& add_seconds(std::string_view name, double seconds);
  // Nothing if the value is empty.
  LogFields& add_if_any(std::string_view name, std::string_view value) {
    return value.empty() ? *this : add(name, value);
  }

  const std::string& text() const { return text_; }

 private:
  LogFields& add_plain(std::string_view name, std::string_view value);

  std::string text_;
};

}  // namespace elastripe
