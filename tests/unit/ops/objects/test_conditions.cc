// Changes on the condition of a cas, and things that are made where there are none: what `ms`, `md`
// and `ma` can ask for beside what the classic commands do.
#include <catch2/catch.hpp>

#include "tests/unit/ops/objects/update_calls.h"

using namespace elastripe::objects;

namespace elastripe {
namespace {

struct Conditions : ClusterFixture {
  Conditions() : ClusterFixture(6, "rs:2,1"), proxy(add_decider()) {
    REQUIRE(run_until([&] { return serves_whole(proxy); }));
  }
  uint64_t cas(const std::string& key) {
    const auto read = run(get_whole(proxy.ops(), key, deadline()));
    REQUIRE(read.has_value());
    REQUIRE(read->object.has_value());
    return read->object->cas;
  }
  uint32_t exptime(const std::string& key) {
    return run(get_whole(proxy.ops(), key, deadline()))->object->exptime;
  }
  StoreOutcome store(StoreVerb verb, const std::string& key, const std::string& value,
                     std::optional<uint64_t> if_cas, std::optional<uint32_t> creates = {}) {
    StoreRequest request;
    request.verb = verb;
    request.key = key;
    request.cas = if_cas;
    request.creates = creates;
    const auto stored = run(store_value(proxy.ops(), request, value, deadline()));
    REQUIRE(stored.has_value());
    return *stored;
  }
  CounterOutcome count(CounterRequest request) {
    const auto counted = run(change_counter(proxy.ops(), request, deadline()));
    REQUIRE(counted.has_value());
    return *counted;
  }
  RemoveStatus remove(const std::string& key, std::optional<uint64_t> if_cas) {
    const auto removed =
        run(remove_object(proxy.ops(), RemoveRequest{.key = key, .cas = if_cas}, deadline()));
    REQUIRE(removed.has_value());
    return *removed;
  }

  sim::SimProxy& proxy;
};

// One that stays in its record, one that stripes even the smallest.
const std::vector<std::pair<std::string, std::string>> kValues = {{"inline:k", "small"},
                                                                  {"k", bytes_of(9000, 1)}};

}  // namespace

TEST_CASE("append and prepend on the condition of a cas", "[conditions]") {
  for (const auto& [key, value] : kValues) {
    Conditions s;
    const StoreVerb verb = GENERATE(StoreVerb::kAppend, StoreVerb::kPrepend);
    CHECK(s.store(verb, key, "x", 1) == StoreStatus::kNotStored);
    REQUIRE(s.put(s.proxy, key, value));
    const uint64_t before = s.cas(key);
    const StoreOutcome stored = s.store(verb, key, "x", before);
    CHECK(stored == StoreStatus::kStored);
    CHECK(stored.cas == s.cas(key));
    CHECK(stored.size == value.size() + 1);
    CHECK(s.store(verb, key, "x", before) == StoreStatus::kExists);
    CHECK(s.get(s.proxy, key) == (verb == StoreVerb::kAppend ? value + "x" : "x" + value));
  }
}

TEST_CASE("a condition on the cas of an update that lies in the log", "[conditions]") {
  Conditions s;
  REQUIRE(s.put(s.proxy, "k", bytes_of(9000, 1)));
  const uint64_t before = s.cas("k");
  REQUIRE(s.run(update_with(s.proxy.ops(), {.key = "k", .offset = 7}, "new", s.deadline())));
  const uint64_t after = s.cas("k");
  CHECK(s.store(StoreVerb::kAppend, "k", "x", before) == StoreStatus::kExists);
  CHECK(s.remove("k", before) == RemoveStatus::kExists);
  CHECK(s.store(StoreVerb::kAppend, "k", "x", after) == StoreStatus::kStored);
  CHECK(s.remove("k", after) == RemoveStatus::kExists);
  CHECK(s.remove("k", s.cas("k")) == RemoveStatus::kRemoved);
}

TEST_CASE("what is appended becomes the value where there is none, if that is asked for",
          "[conditions]") {
  Conditions s;
  const uint32_t exptime = static_cast<uint32_t>(s.proxy.ops().clock.unix_ms() / 1000) + 100;
  for (const auto& [key, value] : kValues) {
    CHECK(s.store(StoreVerb::kAppend, key, value, {}) == StoreStatus::kNotStored);
    const StoreOutcome made = s.store(StoreVerb::kAppend, key, value, {}, exptime);
    CHECK(made == StoreStatus::kStored);
    CHECK(made.cas == s.cas(key));
    CHECK(made.size == value.size());
    CHECK(s.get(s.proxy, key) == value);
    CHECK(s.exptime(key) == exptime);
    CHECK(s.store(StoreVerb::kPrepend, key, "x", {}, exptime + 1) == StoreStatus::kStored);
    CHECK(s.get(s.proxy, key) == "x" + value);
    CHECK(s.exptime(key) == exptime);
  }
}

TEST_CASE("a delete on the condition of a cas", "[conditions]") {
  Conditions s;
  for (const auto& [key, value] : kValues) {
    CHECK(s.remove(key, 1) == RemoveStatus::kNotFound);
    REQUIRE(s.put(s.proxy, key, value));
    CHECK(s.remove(key, s.cas(key) + 1) == RemoveStatus::kExists);
    CHECK(s.get(s.proxy, key) == value);
    CHECK(s.remove(key, s.cas(key)) == RemoveStatus::kRemoved);
    CHECK(s.get(s.proxy, key) == "<miss>");
  }
}

TEST_CASE("counters on the condition of a cas, with a new exptime, and made", "[conditions]") {
  Conditions s;
  const uint32_t exptime = static_cast<uint32_t>(s.proxy.ops().clock.unix_ms() / 1000) + 100;
  for (const std::string key : {"inline:n", "n"}) {
    CHECK(s.count({.key = key, .delta = 1}).status == CounterStatus::kNotFound);
    CHECK(s.count({.key = key, .delta = 1, .cas = 5}).status == CounterStatus::kNotFound);
    const auto made =
        s.count({.key = key, .delta = 1, .creates = {{.initial = 7, .exptime = exptime}}});
    CHECK(made.status == CounterStatus::kOk);
    CHECK(made.value == 7);
    CHECK(made.cas == s.cas(key));
    CHECK(made.exptime == exptime);
    CHECK(s.exptime(key) == exptime);
    const auto next = s.count({.key = key, .delta = 3, .cas = made.cas, .creates = {{}}});
    CHECK(next.value == 10);
    CHECK(next.cas == s.cas(key));
    CHECK(next.exptime == exptime);
    CHECK(s.count({.key = key, .delta = 3, .cas = made.cas}).status == CounterStatus::kExists);
    const auto touched =
        s.count({.key = key, .delta = 4, .increment = false, .exptime = exptime + 9});
    CHECK(touched.value == 6);
    CHECK(touched.exptime == exptime + 9);
    CHECK(s.exptime(key) == exptime + 9);
    CHECK(s.count({.key = key, .cas = made.cas, .exptime = exptime}).status ==
          CounterStatus::kExists);
    CHECK(s.get(s.proxy, key).starts_with("6"));
  }
}

TEST_CASE("a part of a value with a new exptime", "[conditions]") {
  Conditions s;
  const uint32_t exptime = static_cast<uint32_t>(s.proxy.ops().clock.unix_ms() / 1000) + 100;
  for (const auto& [key, value] : kValues) {
    REQUIRE(s.put(s.proxy, key, value));
    WholeSink sink(s.proxy.ops());
    const auto read = s.run(touch_and_get_object(s.proxy.ops(), key, exptime, sink,
                                                 {.offset = 1, .length = 2}, s.deadline()));
    REQUIRE(read.has_value());
    CHECK(sink.whole.value() == value.substr(1, 2));
    CHECK(sink.whole.object->size == value.size());
    CHECK(s.exptime(key) == exptime);
  }
}

}  // namespace elastripe
