// Values that say which object they are, so that a reader can check all of what it gets without
// knowing which writer came last: number and revision in front, then bytes that depend on both.
// Where fields of an object change by themselves, each is such a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace elastripe::bench {

class ObjectBytes {
 public:
  static constexpr size_t kLeastBytes = 16;

  // Objects have so many fields, each of this size, at least kLeastBytes.
  explicit ObjectBytes(size_t field_bytes, size_t fields = 1);

  size_t object_bytes() const { return field_bytes_ * fields_; }
  size_t field_bytes() const { return field_bytes_; }
  size_t fields() const { return fields_; }

  void append(std::string& out, uint64_t number, uint64_t revision) const;
  // One field alone, which is below fields().
  void append_field(std::string& out, uint64_t number, size_t field, uint64_t revision) const;
  // Is it this object, whole, each field of any revision?
  bool matches(std::string_view value, uint64_t number) const;
  // The same of an object of one field: which revision it is.
  std::optional<uint64_t> revision_of(std::string_view value, uint64_t number) const;

 private:
  std::optional<uint64_t> revision_of_field(std::string_view value, uint64_t number) const;
  uint64_t number_of(uint64_t object, size_t field) const { return object * fields_ + field; }
  std::string_view rest(uint64_t number, uint64_t revision) const;

  size_t field_bytes_;
  size_t fields_;
  std::string pool_;  // random; the rest of a value is a slice of it
};

// Bytes that differ from seed to seed and from place to place.
std::string make_object(size_t bytes, uint64_t seed);

// As FNV-1a of the number's bytes.
uint64_t fnv_hash(uint64_t number);

}  // namespace elastripe::bench
