#include <catch2/catch.hpp>
#include <string>

#include "tools/bench/object_bytes.h"

namespace elastripe::bench {

TEST_CASE("a value is recognized as its object's, whatever its revision") {
  const ObjectBytes objects(1000);
  for (const uint64_t revision : {0U, 1U, 77U}) {
    std::string value = "front";
    objects.append(value, 42, revision);
    value.erase(0, 5);
    REQUIRE(value.size() == 1000);
    CHECK(objects.matches(value, 42));
    CHECK_FALSE(objects.matches(value, 43));
  }
}

TEST_CASE("a value that is changed anywhere is nobody's") {
  const ObjectBytes objects(100);
  std::string value;
  objects.append(value, 7, 3);
  for (size_t at = 0; at < value.size(); ++at) {
    std::string changed = value;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CAPTURE(at);
    CHECK_FALSE(objects.matches(changed, 7));
  }
  CHECK_FALSE(objects.matches(value.substr(1), 7));
  CHECK_FALSE(objects.matches(value + "x", 7));
}

TEST_CASE("revisions of one object differ") {
  const ObjectBytes objects(64);
  std::string first;
  std::string second;
  objects.append(first, 7, 1);
  objects.append(second, 7, 2);
  CHECK(first.substr(16) != second.substr(16));
}

TEST_CASE("a value tells its revision") {
  const ObjectBytes objects(64);
  std::string value;
  objects.append(value, 7, 0x1'0002'0003);
  CHECK(objects.revision_of(value, 7) == 0x1'0002'0003);
  CHECK_FALSE(objects.revision_of(value, 8));
  CHECK_FALSE(objects.revision_of(value.substr(1), 7));
  value.back() = static_cast<char>(value.back() ^ 1);
  CHECK_FALSE(objects.revision_of(value, 7));
}

TEST_CASE("fields of an object change by themselves, and none is another's") {
  const ObjectBytes objects(100, 3);
  CHECK(objects.object_bytes() == 300);
  std::string value;
  objects.append(value, 7, 1);
  REQUIRE(value.size() == 300);
  CHECK(objects.matches(value, 7));
  CHECK_FALSE(objects.matches(value, 8));
  CHECK_FALSE(objects.matches(value.substr(0, 200), 7));
  std::string field;
  objects.append_field(field, 7, 1, 9);
  REQUIRE(field.size() == objects.field_bytes());
  for (size_t place = 0; place < 3; ++place) {
    std::string changed = value;
    changed.replace(place * 100, 100, field);
    CHECK(objects.matches(changed, 7) == (place == 1));
  }
}

TEST_CASE("objects are at least as large as what tells them apart") {
  const ObjectBytes objects(1);
  std::string value;
  objects.append(value, 9, 0);
  CHECK(value.size() == ObjectBytes::kLeastBytes);
  CHECK(objects.matches(value, 9));
}

}  // namespace elastripe::bench
