// Base64 (RFC 4648): with padding, and nothing else.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace elastripe {

std::string base64(std::string_view bytes);

// Nothing if it is no base64, or not as base64() writes it.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace elastripe
