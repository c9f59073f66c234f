// The memory of update logs: units, what keeps them, and who gets the last of them.
#include <deque>
#include <thread>

#include "server-patches/node/update/log_pool.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

using Claim = LogPool::Claim;

constexpr size_t kUnit = 1000;
constexpr size_t kBeside = LogPool::kBesideBytes;
constexpr size_t kWhole = kUnit - kBeside;  // what fills a unit

std::optional<LogBytes> append(LogPool& pool, size_t bytes, Claim claim = Claim::kNew,
                               char fill = 'x') {
  return pool.append(as_view(std::string(bytes, fill)), claim);
}
LogBytes put(LogPool& pool, size_t bytes, Claim claim = Claim::kNew, char fill = 'x') {
  auto place = append(pool, bytes, claim, fill);
  REQUIRE(place.has_value());
  return std::move(*place);
}
std::string text_of(const LogBytes& bytes) {
  std::string text(bytes.size(), '\0');
  bytes.read(std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

TEST_CASE("a unit takes bytes until the next do not fit, and need not be in one piece") {
  ArenaStore store({.view_max_bytes = GENERATE(size_t{0}, size_t{1} << 20)});
  LogPool pool({.unit_bytes = kUnit, .units = 9}, store);
  CHECK(pool.usage().units == 0);
  const LogBytes first = put(pool, 600, Claim::kNew, 'a');
  const size_t rest = kWhole - (600 + kBeside);
  const LogBytes second = put(pool, rest, Claim::kNew, 'b');
  CHECK(pool.usage().units == 1);
  const LogBytes third = put(pool, 1, Claim::kNew, 'c');
  CHECK(pool.usage().units == 2);
  const LogBytes fourth = put(pool, kWhole, Claim::kNew, 'd');
  CHECK(pool.usage().units == 3);
  CHECK(pool.usage().limit_units == 9);
  CHECK(pool.usage().unit_bytes == kUnit);
  CHECK(pool.usage().live_bytes == 600 + rest + 1 + kWhole);
  CHECK(text_of(first) == std::string(600, 'a'));
  CHECK(text_of(second) == std::string(rest, 'b'));
  CHECK(text_of(third) == "c");
  CHECK(text_of(fourth) == std::string(kWhole, 'd'));
}

TEST_CASE("what goes with the bytes of each piece takes room in the unit, too") {
  ArenaStore store({});
  LogPool pool({.unit_bytes = kUnit, .units = 9}, store);
  std::vector<LogBytes> pieces;
  for (size_t i = 0; i < kUnit / (1 + kBeside); ++i) pieces.push_back(put(pool, 1));
  CHECK(pool.usage().units == 1);
  pieces.push_back(put(pool, 1));
  CHECK(pool.usage().units == 2);
  CHECK(pool.usage().live_bytes == pieces.size());
}

TEST_CASE("what is larger than a unit has no room, whoever claims it") {
  ArenaStore store({});
  LogPool pool({.unit_bytes = kUnit, .units = 9}, store);
  CHECK_FALSE(append(pool, kWhole + 1));
  CHECK_FALSE(append(pool, kWhole + 1, Claim::kAccepted));
  CHECK(pool.usage().units == 0);
  CHECK(append(pool, kWhole));
}

TEST_CASE("a unit goes with the last that refers to any of its bytes") {
  ArenaStore store({});
  const uint64_t before = store.memory().used_bytes;
  {
    LogPool pool({.unit_bytes = kUnit, .units = 9}, store);
    std::optional<LogBytes> first = append(pool, 700, Claim::kNew, 'a');
    std::optional<LogBytes> second = append(pool, 30, Claim::kNew, 'b');
    const LogBytes active = put(pool, 10);
    CHECK(pool.usage().units == 2);
    std::optional<LogBytes> part = first->part(5, 8);
    CHECK(pool.usage().live_bytes == 748);
    first.reset();
    second.reset();
    CHECK(pool.usage().units == 2);
    CHECK(pool.usage().live_bytes == 18);
    CHECK(text_of(*part) == std::string(8, 'a'));
    part.reset();
    CHECK(pool.usage().units == 1);
    CHECK(pool.usage().live_bytes == 10);
    CHECK(store.memory().used_bytes == before + ArenaStore::cost(1, kUnit));
  }
  CHECK(store.memory().used_bytes == before);
}

TEST_CASE("bytes that are moved are counted once") {
  ArenaStore store({});
  LogPool pool({.unit_bytes = kUnit, .units = 9}, store);
  LogBytes first = put(pool, 10, Claim::kNew, 'a');
  LogBytes second = std::move(first);
  CHECK(pool.usage().live_bytes == 10);
  CHECK(text_of(second) == std::string(10, 'a'));
  LogBytes third;
  third = std::move(second);
  CHECK(third.size() == 10);
  CHECK(pool.usage().live_bytes == 10);
  third = LogBytes();
  CHECK(pool.usage().live_bytes == 0);
}

TEST_CASE("new updates have a quota of units, what others have already goes beyond it") {
  ArenaStore store({});
  LogPool pool({.unit_bytes = kUnit, .units = 2}, store);
  std::optional<LogBytes> first = append(pool, kWhole);
  const LogBytes second = put(pool, kWhole - 1 - kBeside);
  CHECK_FALSE(append(pool, 2));
  const LogBytes last = put(pool, 1);  // fits in the active one
  CHECK_FALSE(append(pool, 1));
  const LogBytes accepted = put(pool, kWhole, Claim::kAccepted);
  CHECK(pool.usage().units == 3);
  CHECK_FALSE(append(pool, 1));
  first.reset();
  CHECK(pool.usage().units == 2);
  CHECK_FALSE(append(pool, 1));
  const LogBytes more = put(pool, 1, Claim::kAccepted);
  CHECK(put(pool, 1).size() == 1);  // there is room where the accepted ones lie
}

TEST_CASE("a quota is not used up by a unit in which nothing is left") {
  ArenaStore store({});
  LogPool pool({.unit_bytes = kUnit, .units = 1}, store);
  for (int i = 0; i < 3; ++i) {
    const LogBytes only = put(pool, kWhole);
    CHECK_FALSE(append(pool, 1));
    CHECK(pool.usage().units == 1);
  }
}

TEST_CASE("the first units may use the reserve, others may if they were accepted before") {
  const size_t cost = ArenaStore::cost(1, kUnit);
  ArenaStore store({.limit_bytes = 10 * cost, .reserve_bytes = 4 * cost, .buckets = 16});
  std::vector<ItemRef> data;
  for (;;) {
    ItemRef item = store.allocate("d", kUnit, Urgency::kNewData);
    if (!item) break;
    data.push_back(std::move(item));
  }
  REQUIRE(data.size() == 6);
  LogPool pool({.unit_bytes = kUnit, .units = 100}, store);
  const LogBytes first = put(pool, kWhole, Claim::kNew, 'a');
  const LogBytes second = put(pool, kWhole);
  CHECK_FALSE(append(pool, 1));
  const LogBytes third = put(pool, kWhole, Claim::kAccepted);
  // The last of the reserve is for what frees memory.
  CHECK_FALSE(append(pool, 1, Claim::kAccepted));
  CHECK(pool.usage().units == 3);
  CHECK(pool.usage().live_bytes == 3 * kWhole);
  CHECK(text_of(first) == std::string(kWhole, 'a'));
  data.pop_back();
  CHECK_FALSE(append(pool, 1));
  CHECK(append(pool, 1, Claim::kAccepted));
  data.clear();
  CHECK(append(pool, kWhole));
}

TEST_CASE("threads get places of their own") {
  ArenaStore store({});
  LogPool pool({.unit_bytes = kUnit, .units = 1'000'000}, store);
  constexpr int kThreads = 4;
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const char fill = static_cast<char>('a' + t);
        std::deque<LogBytes> held;
        for (size_t i = 0; i < 3000; ++i) {
          const size_t bytes = 1 + i * 7 % 60;
          auto place = append(pool, bytes, Claim::kNew, fill);
          wrong += !place || text_of(*place) != std::string(bytes, fill);
          if (place) held.push_back(place->part(0, bytes));
          if (held.size() > 20) {
            wrong += text_of(held.front()) != std::string(held.front().size(), fill);
            held.pop_front();
          }
        }
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(pool.usage().live_bytes == 0);
  CHECK(pool.usage().units == 1);
}

}  // namespace elastripe::node::test
