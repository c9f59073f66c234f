#include <catch2/catch.hpp>
#include <set>

#include "server-patches/node/engine/arena_store.h"

namespace elastripe::node {
namespace {

void put(ArenaStore& store, std::string_view key, std::string_view value) {
  const ItemRef item = store.allocate(key, value.size(), Urgency::kNewData);
  REQUIRE(item);
  store.write(item, 0, as_view(value));
  store.link(item);
}

std::string get(ArenaStore& store, const ItemRef& item) {
  std::string value(store.value_bytes(item), '\0');
  store.read(item, 0, std::as_writable_bytes(std::span(value)));
  return value;
}

}  // namespace

TEST_CASE("a linked item is found until it is removed") {
  ArenaStore store({});
  REQUIRE_FALSE(store.find("a"));
  put(store, "a", "one");
  REQUIRE(get(store, store.find("a")) == "one");
  REQUIRE(store.key(store.find("a")) == "a");
  REQUIRE(store.remove("a"));
  REQUIRE_FALSE(store.remove("a"));
  REQUIRE_FALSE(store.find("a"));
  REQUIRE(store.memory().used_bytes == 0);
}

TEST_CASE("a reference keeps the bytes of a replaced and of a removed item") {
  ArenaStore store({});
  put(store, "a", "one");
  const ItemRef one = store.find("a");
  put(store, "a", "two");
  const ItemRef two = store.find("a");
  store.remove("a");
  REQUIRE(get(store, one) == "one");
  REQUIRE(get(store, two) == "two");
}

TEST_CASE("an item that is never linked gives its memory back") {
  ArenaStore store({});
  {
    const ItemRef item = store.allocate("a", 1000, Urgency::kNewData);
  }
  REQUIRE(store.memory().used_bytes == 0);
}

TEST_CASE("new data stops at the soft limit and the reserve goes on to the limit") {
  const size_t cost = ArenaStore::cost(1, 100);
  ArenaStore store({.limit_bytes = 3 * cost, .reserve_bytes = cost, .buckets = 8});
  REQUIRE(store.memory().free_bytes == 2 * cost);
  put(store, "a", std::string(100, 'a'));
  put(store, "b", std::string(100, 'b'));
  REQUIRE(store.memory().free_bytes == 0);
  REQUIRE_FALSE(store.allocate("c", 100, Urgency::kNewData));
  REQUIRE_FALSE(store.allocate("c", 100, Urgency::kCommitted));
  REQUIRE(store.allocate("c", 50, Urgency::kCommitted));
  const ItemRef reserved = store.allocate("c", 100, Urgency::kMayUseReserve);
  REQUIRE(reserved);
  REQUIRE_FALSE(store.allocate("d", 1, Urgency::kMayUseReserve));
  SECTION("what is no longer fits in place of what it replaces") {
    REQUIRE(store.allocate("a", 100, Urgency::kMayUseReserve));
    REQUIRE(store.allocate("a", 100, Urgency::kCommitted));
    REQUIRE_FALSE(store.allocate("a", 101, Urgency::kMayUseReserve));
    REQUIRE_FALSE(store.allocate("a", 100, Urgency::kNewData));
  }
}

TEST_CASE("a walk visits what stays linked although other keys come and go") {
  ArenaStore store({.buckets = 5000});
  for (int i = 0; i < 3000; ++i) put(store, "stays" + std::to_string(i), "v");
  std::set<std::string> seen;
  uint64_t cursor = 0;
  int round = 0;
  do {
    cursor = store.walk(cursor, [&](const ItemRef& item) {
      seen.insert(std::string(store.key(item)));
      return true;
    });
    put(store, "new" + std::to_string(round), "v");
    put(store, "stays" + std::to_string(round), "replaced");
    if (round > 0) store.remove("new" + std::to_string(round - 1));
    ++round;
  } while (cursor != 0);
  REQUIRE(round == 5);
  for (int i = 0; i < 3000; ++i) REQUIRE(seen.contains("stays" + std::to_string(i)));
}

TEST_CASE("a visit that returns false ends the walk after its bucket") {
  ArenaStore store({.buckets = 2});
  for (int i = 0; i < 20; ++i) put(store, std::to_string(i), "v");
  size_t visits = 0;
  const auto count_one = [&](const ItemRef&) { return ++visits, false; };
  const uint64_t cursor = store.walk(0, count_one);
  REQUIRE(cursor == 1);
  REQUIRE(visits > 1);
  REQUIRE(store.walk(cursor, count_one) == 0);
  REQUIRE(visits == 20);
}

}  // namespace elastripe::node
