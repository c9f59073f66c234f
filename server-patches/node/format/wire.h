// Reading and writing of little-endian wire data: the primitives under every node format.
//
// A Writer appends to a string; a Reader walks a view and, once something was missing or out of
// bounds, stays failed and returns zeros, so a decoder checks `ok()` once at its end. Neither
// throws.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <span>
#include <string>
#include <string_view>

namespace elastripe::node {

using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;

inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline ByteView as_view(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// What a decoder refused, in one line; the bytes came from a peer and mean nothing else.
using FormatError = std::string;
template <class T>
using Decoded = std::expected<T, FormatError>;

// A random 128-bit name: data_txid or attempt_id. Zero means none.
struct Id128 {
  uint64_t hi = 0;
  uint64_t lo = 0;

  friend bool operator==(const Id128&, const Id128&) = default;
  friend auto operator<=>(const Id128&, const Id128&) = default;
  bool is_zero() const { return hi == 0 && lo == 0; }
};
std::string to_string(const Id128& id);  // 32 hex digits

// Between the number and its bytes on the wire: the same both ways.
template <std::unsigned_integral T>
constexpr T little_endian(T value) {
  if constexpr (std::endian::native == std::endian::big) return std::byteswap(value);
  return value;
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <std::unsigned_integral T>
  void number(T value) {
    const T wire = little_endian(value);
    char raw[sizeof(T)];
    std::memcpy(raw, &wire, sizeof(T));
    out_.append(raw, sizeof(T));
  }
  void u8(uint8_t v) { number(v); }
  void u16(uint16_t v) { number(v); }
  void u32(uint32_t v) { number(v); }
  void u64(uint64_t v) { number(v); }
  void id(const Id128& v) {
    u64(v.hi);
    u64(v.lo);
  }
  void raw(std::string_view v) { out_.append(v); }
  // Length-prefixed: keys and names (at most 65535 bytes), and values.
  void short_string(std::string_view v) {
    u16(static_cast<uint16_t>(v.size()));
    raw(v);
  }
  void long_string(std::string_view v) {
    u32(static_cast<uint32_t>(v.size()));
    raw(v);
  }

 private:
  std::string& out_;
};

class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}

  template <std::unsigned_integral T>
  T number() {
    const std::byte* const from = take(sizeof(T));
    if (from == nullptr) return 0;
    T wire;
    std::memcpy(&wire, from, sizeof(T));
    return little_endian(wire);
  }
  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  Id128 id() {
    const uint64_t hi = u64();
    return {hi, u64()};
  }
  // Views into the input: they live as long as it does.
  std::string_view raw(size_t bytes) {
    const std::byte* const from = take(bytes);
    return from == nullptr ? std::string_view{} : as_text({from, bytes});
  }
  std::string_view short_string() { return raw(u16()); }
  std::string_view long_string() { return raw(u32()); }
  std::string_view rest() { return raw(in_.size()); }
  ByteView left() const { return in_; }  // what was not read yet

  // Reads a count whose elements take at least `element_bytes` each, so that a hostile count can
  // never make the caller reserve more than the input's own size.
  template <std::unsigned_integral T>
  size_t count(size_t element_bytes) {
    const size_t n = number<T>();
    if (n * element_bytes > in_.size()) fail();
    return ok_ ? n : 0;
  }

  void fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }
  // True if everything was read, and nothing is left over.
  bool complete() const { return ok_ && in_.empty(); }

 private:
  // Where they lie; null if there are not so many.
  const std::byte* take(size_t bytes) {
    if (!ok_ || bytes > in_.size()) {
      ok_ = false;
      return nullptr;
    }
    const std::byte* const from = in_.data();
    in_ = {from + bytes, in_.size() - bytes};
    return from;
  }

  ByteView in_;
  bool ok_ = true;
};

}  // namespace elastripe::node
