#include "proxy/base/base64.h"

#include <cstdint>

namespace elastripe {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr size_t kGroupBytes = 3;
constexpr size_t kGroupLetters = 4;
constexpr int kLetterBits = 6;
constexpr int kByteBits = 8;

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + kGroupBytes - 1) / kGroupBytes * kGroupLetters);
  uint32_t bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = bits << kByteBits | static_cast<unsigned char>(byte);
    for (count += kByteBits; count >= kLetterBits; count -= kLetterBits) {
      text += kLetters[bits >> (count - kLetterBits) & 63];
    }
  }
  if (count > 0) text += kLetters[bits << (kLetterBits - count) & 63];
  while (text.size() % kGroupLetters != 0) text += '=';
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % kGroupLetters != 0) return std::nullopt;
  for (size_t padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() * kGroupBytes / kGroupLetters);
  uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const size_t value = kLetters.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << kLetterBits | static_cast<uint32_t>(value);
    count += kLetterBits;
    if (count < kByteBits) continue;
    count -= kByteBits;
    bytes += static_cast<char>(bits >> count & 255);
  }
  if ((bits & ((1U << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace elastripe
