#include "server-patches/node/format/counter.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>

namespace elastripe::node {

std::optional<CounterSum> add_delta(std::string_view value, bool increment, uint64_t delta) {
  if (value.empty() || value.size() > kMaxCounterBytes) return std::nullopt;
  // memcached parses the value together with the line end that follows it in its item.
  const std::string text = std::string(value) + "\r\n";
  char* end = nullptr;
  errno = 0;
  uint64_t number = std::strtoull(text.c_str(), &end, 10);
  if (errno == ERANGE || end == text.c_str()) return std::nullopt;
  if (std::isspace(static_cast<unsigned char>(*end)) == 0 && *end != '\0') return std::nullopt;
  // strtoull negates; memcached notices a sign only on numbers that look negative.
  const bool looks_negative = static_cast<int64_t>(number) < 0;
  if (looks_negative && std::string_view(text.c_str()).contains('-')) return std::nullopt;
  if (increment) {
    number += delta;
  } else {
    number -= std::min(number, delta);
  }
  CounterSum sum{number, std::to_string(number)};
  if (sum.text.size() < value.size()) sum.text.resize(value.size(), ' ');
  return sum;
}

}  // namespace elastripe::node
