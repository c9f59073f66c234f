// Parts that many messages have, for the sources that encode and decode them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server-patches/node/format/message.h"
#include "server-patches/node/format/record.h"

namespace elastripe::node {

// The least that a key takes on the wire.
inline constexpr size_t kKeyBytes = 3;

template <class Message>
Decoded<Message> finish(const Reader& in, Message message, const char* what) {
  if (!in.ok()) return std::unexpected(std::string("malformed ") + what);
  return message;
}

inline bool read_flag(Reader& in) {
  const uint8_t value = in.u8();
  if (value > 1) in.fail();
  return value == 1;
}

template <class Enum>
Enum read_enum(Reader& in, Enum last) {
  const uint8_t value = in.u8();
  if (value > static_cast<uint8_t>(last)) in.fail();
  return static_cast<Enum>(value);
}

inline std::string_view read_key(Reader& in, bool may_be_empty = false) {
  const std::string_view key = in.short_string();
  if (key.size() > kMaxKeyBytes || (key.empty() && !may_be_empty)) in.fail();
  return in.ok() ? key : std::string_view{};
}

// The first element that is cut off or malformed ends it.
template <class Element, class Read>
inline std::vector<Element> read_list(Reader& in, size_t element_bytes, Read read) {
  std::vector<Element> list;
  for (size_t left = in.count<uint32_t>(element_bytes); left > 0 && in.ok(); --left) {
    read(list.emplace_back());
  }
  return list;
}

inline void write_bits(Writer& w, const std::vector<uint8_t>& bits) {
  w.u32(static_cast<uint32_t>(bits.size()));
  for (const uint8_t byte : bits) w.u8(byte);
}

inline std::vector<uint8_t> read_bits(Reader& in) {
  std::vector<uint8_t> bits(in.count<uint32_t>(1));
  for (uint8_t& byte : bits) byte = in.u8();
  return bits;
}

}  // namespace elastripe::node
