#include <catch2/catch.hpp>

#include "proxy/cluster/record_cache.h"

namespace elastripe {
namespace {

RecordPtr striped() {
  auto record = std::make_shared<node::Record>();
  record->meta.version = 1;
  record->content.kind = node::RecordKind::kStriped;
  return record;
}

TEST_CASE("a cache that shrinks lets the records go that were used least recently") {
  RecordCache cache(1 << 20);
  for (const char* key : {"a", "b", "c"}) cache.put(key, striped());
  CHECK(cache.find("a") != nullptr);
  cache.resize(cache.bytes() - 1);
  CHECK(cache.find("b") == nullptr);
  CHECK(cache.find("a") != nullptr);
  CHECK(cache.find("c") != nullptr);
  cache.resize(0);
  CHECK(cache.bytes() == 0);
  cache.put("d", striped());
  CHECK(cache.find("d") == nullptr);
  cache.resize(1 << 20);
  cache.put("d", striped());
  CHECK(cache.find("d") != nullptr);
}

}  // namespace
}  // namespace elastripe
