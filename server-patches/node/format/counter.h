// memcached 1.6.18's incr and decr of a stored value: for nodes, which change inline values, and
// for proxies, which change striped ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace elastripe::node {

// Longer values are no numbers, as memcached does not count in items of several chunks.
inline constexpr size_t kMaxCounterBytes = 512 << 10;

struct CounterSum {
  uint64_t number = 0;
  std::string text;  // keeps the length of the old value, padded with spaces, unless it is longer
};

// Nothing if the value is no number.
std::optional<CounterSum> add_delta(std::string_view value, bool increment, uint64_t delta);

}  // namespace elastripe::node
