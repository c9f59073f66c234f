// Values that say which object they are, so that a reader can check all of what it gets without
// knowing which writer came last: number and revision in front, then bytes that depend on both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace elastripe::bench {

class ObjectBytes {
 public:
  static constexpr size_t kLeastBytes = 16;

  // Objects have this size, at least kLeastBytes.
  explicit ObjectBytes(size_t object_bytes);

  size_t object_bytes() const { return object_bytes_; }

  void append(std::string& out, uint64_t number, uint64_t revision) const;
  // Is it any revision of this object, whole?
  bool matches(std::string_view value, uint64_t number) const;

 private:
  std::string_view rest(uint64_t number, uint64_t revision) const;

  size_t object_bytes_;
  std::string pool_;  // random; the rest of a value is a slice of it
};

// Bytes that differ from seed to seed and from place to place.
std::string make_object(size_t bytes, uint64_t seed);

// As FNV-1a of the number's bytes.
uint64_t fnv_hash(uint64_t number);

}  // namespace elastripe::bench
