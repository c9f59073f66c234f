// What mg, ms, md and ma do for those who make values anew: wins, stale values, given cas.
#include <catch2/catch.hpp>

#include "tests/unit/ops/objects/update_calls.h"

using namespace elastripe::objects;

namespace elastripe {
namespace {

struct Marks : ClusterFixture {
  Marks() : ClusterFixture(6, "rs:2,1"), proxy(add_decider()), other(add_proxy()) {
    REQUIRE(run_until([&] { return serves_whole(proxy); }));
    other.map().serve(proxy.map().current());
  }
  uint32_t in_s(uint32_t seconds) {
    return static_cast<uint32_t>(proxy.ops().clock.unix_ms() / 1000) + seconds;
  }
  // What mg tells; nothing: a miss.
  std::optional<Object> read(ReadRequest request, sim::SimProxy* by = nullptr) {
    request.may_win = true;
    return look(request, by);
  }
  std::optional<Object> look(const ReadRequest& request, sim::SimProxy* by = nullptr) {
    OpsContext& ops = (by != nullptr ? *by : proxy).ops();
    WholeSink sink(ops);
    const auto outcome = run(read_object(ops, request, sink, deadline()));
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->found == sink.whole.object.has_value());
    value = sink.whole.value();
    return sink.whole.object;
  }
  RemoveStatus remove(RemoveRequest request) {
    const auto removed = run(remove_object(proxy.ops(), request, deadline()));
    REQUIRE(removed.has_value());
    return *removed;
  }
  StoreOutcome store(StoreRequest request, const std::string& bytes) {
    const auto stored = run(store_value(proxy.ops(), request, bytes, deadline()));
    REQUIRE(stored.has_value());
    return *stored;
  }

  sim::SimProxy& proxy;
  sim::SimProxy& other;
  std::string value;
};

const std::vector<std::pair<std::string, std::string>> kValues = {{"inline:k", "small"},
                                                                  {"k", bytes_of(9000, 1)}};

}  // namespace

TEST_CASE("who misses first makes the value, and others are told so", "[marks]") {
  Marks s;
  const ReadRequest request{.key = "k", .creates = ReadRequest::Creation{s.in_s(100), 4711}};
  CHECK_FALSE(s.read({.key = "k"}));
  const auto first = s.read(request);
  REQUIRE(first);
  CHECK(first->is_won);
  CHECK_FALSE(first->win_is_taken);
  CHECK(first->size == 0);
  CHECK(first->cas == 4711);
  CHECK(first->exptime == s.in_s(100));
  const auto second = s.read(request, &s.other);
  CHECK_FALSE(second->is_won);
  CHECK(second->win_is_taken);
  CHECK(second->cas == 4711);
  CHECK(s.store({.verb = StoreVerb::kCas, .key = "k", .cas = 4711}, "made") ==
        StoreStatus::kStored);
  const auto made = s.read(request);
  CHECK(s.value == "made");
  CHECK_FALSE(made->is_won);
  CHECK_FALSE(made->win_is_taken);
}

TEST_CASE("one reader of a stale value is told to make it anew", "[marks]") {
  for (const auto& [key, bytes] : kValues) {
    Marks s;
    CHECK(s.remove({.key = key, .marks_stale = true}) == RemoveStatus::kNotFound);
    REQUIRE(s.put(s.proxy, key, bytes));
    const uint64_t before = s.read({.key = key})->cas;
    CHECK(s.remove({.key = key, .cas = before + 1, .marks_stale = true}) == RemoveStatus::kExists);
    CHECK(s.remove({.key = key, .cas = before, .marks_stale = true, .exptime = s.in_s(30)}) ==
          RemoveStatus::kRemoved);
    const auto won = s.read({.key = key}, &s.other);
    REQUIRE(won);
    CHECK(s.value == bytes);
    CHECK(won->is_stale);
    CHECK(won->is_won);
    CHECK_FALSE(won->win_is_taken);
    CHECK(won->cas > before);
    CHECK(won->exptime == s.in_s(30));
    const auto later = s.read({.key = key});
    CHECK(later->is_stale);
    CHECK_FALSE(later->is_won);
    CHECK(later->win_is_taken);
    CHECK(later->cas == won->cas);
    CHECK(s.get(s.proxy, key) == bytes);
    CHECK(s.store({.verb = StoreVerb::kCas, .key = key, .cas = before}, "old") ==
          StoreStatus::kExists);
    CHECK(s.store({.verb = StoreVerb::kCas, .key = key, .cas = won->cas}, "new") ==
          StoreStatus::kStored);
    const auto fresh = s.read({.key = key});
    CHECK(s.value == "new");
    CHECK_FALSE(fresh->is_stale);
    CHECK_FALSE(fresh->win_is_taken);
  }
}

TEST_CASE("a value made of an older one is stored as stale", "[marks]") {
  for (const auto& [key, bytes] : kValues) {
    Marks s;
    REQUIRE(s.put(s.proxy, key, "first"));
    const uint64_t old = s.read({.key = key})->cas;
    REQUIRE(s.remove({.key = key, .marks_stale = true, .exptime = s.in_s(60)}) ==
            RemoveStatus::kRemoved);
    REQUIRE(s.read({.key = key})->is_won);
    StoreRequest request{.verb = StoreVerb::kCas, .key = key, .cas = old};
    CHECK(s.store(request, bytes) == StoreStatus::kExists);
    request.stale_if_older = true;
    CHECK(s.store(request, bytes) == StoreStatus::kStored);
    const auto stale = s.read({.key = key});
    CHECK(s.value == bytes);
    CHECK(stale->is_stale);
    CHECK(stale->win_is_taken);
    CHECK(stale->exptime == s.in_s(60));
    request.cas = stale->cas + 1;
    CHECK(s.store(request, bytes) == StoreStatus::kExists);
    request.cas = stale->cas;
    CHECK(s.store(request, "new") == StoreStatus::kStored);
    CHECK_FALSE(s.read({.key = key})->is_stale);
  }
}

TEST_CASE("who asks in time makes a value anew before it expires", "[marks]") {
  Marks s;
  REQUIRE(s.put(s.proxy, "forever", "value"));
  CHECK_FALSE(s.read({.key = "forever", .wins_before = s.in_s(1000)})->is_won);
  StoreRequest request{.key = "k", .exptime = s.in_s(20)};
  REQUIRE(s.store(request, "value") == StoreStatus::kStored);
  CHECK_FALSE(s.read({.key = "k", .wins_before = s.in_s(20)})->is_won);
  const auto won = s.read({.key = "k", .wins_before = s.in_s(30)});
  CHECK(won->is_won);
  CHECK_FALSE(won->is_stale);
  const auto second = s.read({.key = "k", .wins_before = s.in_s(30)}, &s.other);
  CHECK_FALSE(second->is_won);
  CHECK(second->win_is_taken);
}

TEST_CASE("a value is taken away and its key stays", "[marks]") {
  for (const auto& [key, bytes] : kValues) {
    Marks s;
    REQUIRE(s.put(s.proxy, key, bytes));
    const uint64_t before = s.read({.key = key})->cas;
    CHECK(s.remove({.key = key, .cas = before + 1, .empties = true}) == RemoveStatus::kExists);
    CHECK(s.remove({.key = key, .marks_stale = true, .empties = true}) == RemoveStatus::kRemoved);
    const auto empty = s.read({.key = key});
    REQUIRE(empty);
    CHECK(empty->size == 0);
    CHECK(empty->is_stale);
    CHECK(empty->is_won);
  }
}

TEST_CASE("a cas that a client gives stays until the value changes", "[marks]") {
  for (const auto& [key, bytes] : kValues) {
    Marks s;
    const StoreOutcome stored = s.store({.key = key, .new_cas = 4711}, bytes);
    CHECK(stored.cas == 4711);
    CHECK(s.read({.key = key})->cas == 4711);
    REQUIRE(s.run(touch_object(s.proxy.ops(), key, s.in_s(50), s.deadline())) == true);
    CHECK(s.read({.key = key})->cas == 4711);
    const StoreOutcome longer =
        s.store({.verb = StoreVerb::kAppend, .key = key, .cas = 4711, .new_cas = 5000}, "x");
    CHECK(longer == StoreStatus::kStored);
    CHECK(longer.cas == 5000);
    CHECK(s.read({.key = key})->cas == 5000);
    REQUIRE(s.remove({.key = key, .cas = 5000, .marks_stale = true, .new_cas = 6000}) ==
            RemoveStatus::kRemoved);
    CHECK(s.read({.key = key})->cas == 6000);
    REQUIRE(s.run(update_with(s.proxy.ops(), {.key = key, .cas = 6000}, "X", s.deadline())));
    const auto updated = s.read({.key = key});
    CHECK(updated->cas != 6000);
    CHECK(updated->is_stale);
    CHECK(s.value == "X" + bytes.substr(1) + "x");
    REQUIRE(s.put(s.proxy, key, "7"));
    const auto counted = s.run(
        change_counter(s.proxy.ops(), {.key = key, .delta = 1, .new_cas = 7000}, s.deadline()));
    CHECK(counted->cas == 7000);
    CHECK(s.read({.key = key})->cas == 7000);
  }
}

TEST_CASE("an update after a mark moves the cas, and folds leave it", "[marks]") {
  Marks s;
  REQUIRE(s.put(s.proxy, "k", bytes_of(9000, 1)));
  REQUIRE(s.run(update_with(s.proxy.ops(), {.key = "k", .offset = 5}, "abc", s.deadline())));
  const uint64_t before = s.read({.key = "k"})->cas;
  REQUIRE(s.remove({.key = "k", .cas = before, .marks_stale = true}) == RemoveStatus::kRemoved);
  const uint64_t marked = s.read({.key = "k"})->cas;
  CHECK(marked > before);
  const auto updated = s.run(
      update_with(s.proxy.ops(), {.key = "k", .offset = 5, .cas = marked}, "def", s.deadline()));
  REQUIRE(updated);
  CHECK(updated->cas > marked);
  CHECK(s.read({.key = "k"})->cas == updated->cas);
}

TEST_CASE("uses are told as the tail knows them", "[marks]") {
  Marks s;
  REQUIRE(s.put(s.proxy, "k", bytes_of(9000, 1)));
  const ReadRequest quiet{.key = "k", .is_use = false, .tells_use = true};
  CHECK_FALSE(s.read(quiet)->was_used);
  CHECK_FALSE(s.look(quiet)->was_used);
  CHECK_FALSE(s.read({.key = "k", .tells_use = true})->was_used);
  CHECK(s.read({.key = "k", .tells_use = true})->was_used);
  CHECK(s.look(quiet)->was_used);
}

}  // namespace elastripe
