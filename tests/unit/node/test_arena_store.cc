#include <algorithm>
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

TEST_CASE("a linked item is unshared while one reference to it is held") {
  ArenaStore store({});
  put(store, "a", "one");
  const ItemRef mine = store.find("a");
  REQUIRE(store.is_unshared(mine));
  {
    const ItemRef other = store.find("a");
    REQUIRE_FALSE(store.is_unshared(mine));
  }
  REQUIRE(store.is_unshared(mine));
  put(store, "b", "two");
  REQUIRE(store.is_unshared(mine));
  // Written in place, others find it changed.
  store.write(mine, 0, as_view("t"));
  REQUIRE(get(store, store.find("a")) == "tne");
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
    REQUIRE_FALSE(store.allocate("a", 100, Urgency::kMayUseReserve));
    REQUIRE(store.allocate_in_place("a", 100));
    REQUIRE_FALSE(store.allocate_in_place("a", 101));
    REQUIRE_FALSE(store.allocate_in_place("c", 1));
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

TEST_CASE("a walk can stop after any item of a bucket, and what stays is visited all the same") {
  ArenaStore store({.buckets = 2});
  constexpr int kCount = 50;
  for (int i = 0; i < kCount; ++i) put(store, "stays" + std::to_string(i), "v");
  std::vector<std::string> seen;
  uint64_t cursor = 0;
  int round = 0;
  do {
    cursor = store.walk(cursor, [&](const ItemRef& item) {
      seen.emplace_back(store.key(item));
      return false;
    });
    // The store's lists change their order with whatever is removed, added and replaced.
    store.remove("goes" + std::to_string(round - 1));
    put(store, "goes" + std::to_string(round), "v");
    for (int i = round % 7; i < kCount; i += 7) put(store, "stays" + std::to_string(i), "w");
    REQUIRE(++round < 3 * kCount);
  } while (cursor != 0);
  for (int i = 0; i < kCount; ++i) {
    REQUIRE(std::ranges::count(seen, "stays" + std::to_string(i)) == 1);
  }
}

TEST_CASE("memory that fails changes one bit of one record, as its seed says") {
  ArenaStore store({});
  put(store, "\x02shard", "shard");
  REQUIRE(store.corrupt(1).empty());
  put(store, "\x01one", "value");
  put(store, "\x01two", "value");
  std::set<std::string> changed;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    const std::string key = store.corrupt(seed);
    const std::string value = get(store, store.find("\x01" + key));
    REQUIRE(value != "value");
    REQUIRE(store.corrupt(seed) == key);  // changes it back
    REQUIRE(get(store, store.find("\x01" + key)) == "value");
    changed.insert(key + value);
  }
  REQUIRE(changed.size() == 80);
  REQUIRE(get(store, store.find("\x02shard")) == "shard");
}

}  // namespace elastripe::node
