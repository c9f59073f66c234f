// What may be a name of a node or of a machine.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace elastripe {

inline constexpr size_t kMaxNameBytes = 64;

// 1..kMaxNameBytes letters, digits, '.', '_' or '-'.
bool is_name(std::string_view text);
// A name, or an IP address.
bool is_host(const std::string& host);
// Nobody on another machine can reach it.
bool is_loopback(const std::string& host);

}  // namespace elastripe
