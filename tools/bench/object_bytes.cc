#include "tools/bench/object_bytes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

namespace elastripe::bench {
namespace {

constexpr size_t kSlices = 4093;

}  // namespace

uint64_t fnv_hash(uint64_t number) {
  uint64_t hash = 0xCBF29CE484222325;
  for (int byte = 0; byte < 8; ++byte) {
    hash ^= number & 0xFF;
    hash *= 1099511628211;
    number >>= 8;
  }
  return hash;
}

std::string make_object(size_t bytes, uint64_t seed) {
  std::string object(bytes, '\0');
  std::mt19937_64 random(seed);
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(object.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return object;
}

ObjectBytes::ObjectBytes(size_t field_bytes, size_t fields)
    : field_bytes_(std::max(field_bytes, kLeastBytes)),
      fields_(fields),
      pool_(make_object(field_bytes_ + kSlices, 1)) {}

std::string_view ObjectBytes::rest(uint64_t number, uint64_t revision) const {
  const size_t at = fnv_hash(number * 31 + revision) % kSlices;
  return std::string_view(pool_).substr(at, field_bytes_ - kLeastBytes);
}

void ObjectBytes::append(std::string& out, uint64_t number, uint64_t revision) const {
  for (size_t field = 0; field < fields_; ++field) append_field(out, number, field, revision);
}

void ObjectBytes::append_field(std::string& out, uint64_t number, size_t field,
                               uint64_t revision) const {
  const uint64_t own = number_of(number, field);
  std::array<char, kLeastBytes> front{};
  std::memcpy(front.data(), &own, sizeof own);
  std::memcpy(front.data() + sizeof own, &revision, sizeof revision);
  out.append(front.data(), front.size());
  out.append(rest(own, revision));
}

bool ObjectBytes::matches(std::string_view value, uint64_t number) const {
  if (value.size() != object_bytes()) return false;
  for (size_t field = 0; field < fields_; ++field) {
    const auto bytes = value.substr(field * field_bytes_, field_bytes_);
    if (!revision_of_field(bytes, number_of(number, field))) return false;
  }
  return true;
}

std::optional<uint64_t> ObjectBytes::revision_of(std::string_view value, uint64_t number) const {
  if (value.size() != object_bytes() || fields_ != 1) return std::nullopt;
  return revision_of_field(value, number);
}

std::optional<uint64_t> ObjectBytes::revision_of_field(std::string_view value,
                                                       uint64_t number) const {
  uint64_t found = 0;
  uint64_t revision = 0;
  std::memcpy(&found, value.data(), sizeof found);
  std::memcpy(&revision, value.data() + sizeof found, sizeof revision);
  if (found != number || value.substr(kLeastBytes) != rest(number, revision)) return std::nullopt;
  return revision;
}

}  // namespace elastripe::bench
