// Updates that find the log of their key full wait for room in the order in which they came.
#include <catch2/catch.hpp>
#include <map>

#include "tests/unit/ops/objects/update_calls.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace std::chrono_literals;

namespace {

using node::Opcode;

// A log with no room for a large update, but for small ones, while folds take long.
struct NearlyFull : ClusterFixture {
  explicit NearlyFull(const std::string& pool, Duration slow = 300ms)
      : ClusterFixture(7, "rs:2,2"), key(pool + "k") {
    proxy_memory.read_bytes = 4 << 20;
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
    REQUIRE(put(*proxy, key, value));
    network().set_delay_rule([this, slow](int, node::NodeId, const node::RequestHeader& header) {
      appends += header.opcode == Opcode::kLogAppend;
      return header.opcode == Opcode::kShardPatch && is_slow ? std::optional<Duration>(slow)
                                                             : std::nullopt;
    });
    for (size_t i = 0; i < kUpdates; ++i) {
      begin(i * kLarge, bytes_of(kLarge, i));
      REQUIRE(run_until([&] { return done.size() == i + 1; }));
    }
    REQUIRE(full_logs() == 0);
    done.clear();
    appends = 0;
  }
  ~NearlyFull() { network().set_delay_rule({}); }

  // One with the same tail and no log.
  void use_other_key() {
    const std::string full = key;
    const auto tail_of = [&](const std::string& of) { return homes_of(*proxy, of).front(); };
    while (key == full || tail_of(key) != tail_of(full)) key += "k";
    value = bytes_of(40'000, 2);
    REQUIRE(put(*proxy, key, value));
  }

  int full_logs() { return static_cast<int>(proxy->ops().counters.full_logs); }
  void begin(uint64_t offset, std::string bytes) { flows.spawn(update(offset, std::move(bytes))); }
  Task<void> update(uint64_t offset, std::string bytes) {
    const auto outcome = co_await update_with(proxy->ops(), {.key = key, .offset = offset}, bytes,
                                              events().now() + 1min);
    CHECK(outcome.has_value());
    if (!outcome) co_return;
    CHECK(outcome->status == UpdateStatus::kUpdated);
    value.replace(offset, bytes.size(), bytes);
    done.emplace(outcome->cas, bytes.size());
  }

  // A unit of the logs has room for three, and some small ones; a node has 20 units.
  static constexpr size_t kLarge = 20000;
  static constexpr size_t kUpdates = 3 * 20;
  std::string key;
  std::string value = bytes_of(kUpdates * kLarge, 1);
  sim::SimProxy* proxy = nullptr;
  Scope flows;
  std::map<uint64_t, size_t> done;  // sizes of updates, in their order
  bool is_slow = true;
  int appends = 0;
};

}  // namespace

TEST_CASE("small updates do not take the room that a large one waits for", "[update]") {
  NearlyFull s(GENERATE("", "once:"));
  constexpr size_t kSmall = 20;
  s.begin(0, bytes_of(s.kLarge, 99));
  REQUIRE(s.run_until([&] { return s.full_logs() == 1; }));
  CHECK(s.done.empty());
  for (size_t i = 0; i < kSmall; ++i) s.begin(100'000 + 10 * i, "small");
  s.run_for(100ms);
  CHECK(s.done.empty());
  // They are not sent before it is their turn.
  CHECK(s.appends == 1);
  s.is_slow = false;
  REQUIRE(s.run_until([&] { return s.done.size() == kSmall + 1; }));
  CHECK(s.done.begin()->second == s.kLarge);
  CHECK(s.full_logs() == 1);
  CHECK((s.get(*s.proxy, s.key) == s.value));
}

TEST_CASE("an update that finds a log full is sent again when there is room", "[update]") {
  NearlyFull s(GENERATE("", "once:"));
  constexpr int kCount = 8;
  for (size_t i = 0; i < kCount; ++i) s.begin(i * s.kLarge, bytes_of(s.kLarge, 100 + i));
  REQUIRE(s.run_until([&] { return s.full_logs() > 0; }));
  s.run_for(200ms);
  CHECK(s.appends <= kCount);
  s.is_slow = false;
  REQUIRE(s.run_until([&] { return s.done.size() == kCount; }));
  CHECK(s.full_logs() <= kCount);
  CHECK((s.get(*s.proxy, s.key) == s.value));
}

TEST_CASE("where logs of other keys leave no room updates go into shards one by one", "[update]") {
  NearlyFull s("", /*slow=*/10s);
  s.use_other_key();
  constexpr size_t kCount = 25;
  for (size_t i = 0; i < kCount; ++i) s.begin(i * 400, bytes_of(400, i));
  s.is_slow = false;  // but for the fold that has begun
  // Those behind the first ones do not wait as long again as each of these did.
  REQUIRE(s.run_until([&] { return s.done.size() == kCount; }, 2s));
  CHECK((s.get(*s.proxy, s.key) == s.value));
}

TEST_CASE("an update waits for room that another proxy makes", "[update]") {
  NearlyFull s(GENERATE("", "once:"));
  sim::SimProxy& folds = *s.proxy;  // since the log was half full
  s.proxy = &s.add_proxy();
  s.proxy->map().serve(folds.map().current());
  s.begin(0, bytes_of(s.kLarge, 99));
  REQUIRE(s.run_until([&] { return s.full_logs() == 1; }));
  s.run_for(200ms);
  CHECK(s.done.empty());
  CHECK(folds.ops().counters.folded_logs == 0);
  s.is_slow = false;
  REQUIRE(s.run_until([&] { return s.done.size() == 1; }));
  CHECK(folds.ops().counters.folded_logs == 1);
  // It is not sent again and again, nor goes into the shards.
  CHECK(s.full_logs() <= 2);
  CHECK(s.proxy->ops().counters.logged_updates == 1);
  CHECK((s.get(*s.proxy, s.key) == s.value));
}

TEST_CASE("an update that goes into shards at last goes before those behind it", "[update]") {
  NearlyFull s("", /*slow=*/10s);
  s.use_other_key();
  constexpr size_t kSmall = 20;
  s.is_slow = false;  // but for the fold that has begun
  s.begin(0, bytes_of(s.kLarge, 99));
  REQUIRE(s.run_until([&] { return s.full_logs() == 1; }));
  for (size_t i = 0; i < kSmall; ++i) s.begin(30'000 + 10 * i, "small");
  REQUIRE(s.run_until([&] { return s.done.size() == kSmall + 1; }, 2s));
  CHECK(s.done.begin()->second == s.kLarge);
  CHECK((s.get(*s.proxy, s.key) == s.value));
}

TEST_CASE("an update that goes into shards waits for no memory that those behind it have",
          "[update]") {
  NearlyFull s("", /*slow=*/10s);
  s.use_other_key();
  s.is_slow = false;  // but for the fold that has begun
  constexpr size_t kCount = 6;
  for (size_t i = 0; i < kCount; ++i) s.begin(i * 1000, bytes_of(s.kLarge, 100 + i));
  REQUIRE(s.run_until([&] { return s.done.size() == kCount; }, 8s));
  CHECK(s.full_logs() > 0);
}

TEST_CASE("a fold that an update waits for begins again when the object was touched", "[update]") {
  NearlyFull s(GENERATE("", "once:"));
  s.begin(0, bytes_of(s.kLarge, 99));
  REQUIRE(s.run_until([&] { return s.full_logs() == 1; }));
  const uint64_t logged = s.proxy->ops().counters.logged_updates;
  REQUIRE(*s.run(touch_object(s.proxy->ops(), s.key, 0, s.deadline())));
  s.is_slow = false;
  REQUIRE(s.run_until([&] { return s.done.size() == 1; }));
  CHECK(s.proxy->ops().counters.logged_updates == logged + 1);
  CHECK((s.get(*s.proxy, s.key) == s.value));
}

TEST_CASE("an update that waits for room is told so when its time is up", "[update]") {
  NearlyFull s("");
  s.begin(0, bytes_of(s.kLarge, 99));
  REQUIRE(s.run_until([&] { return s.full_logs() == 1; }));
  const auto outcome = s.run(
      update_with(s.proxy->ops(), {.key = s.key, .offset = 0}, "small", s.events().now() + 1ms));
  REQUIRE(!outcome);
  CHECK(outcome.error().code == ErrorCode::kTimeout);
  CHECK(outcome.error().message == "the update log of the key was full for too long");
  REQUIRE(s.run_until([&] { return s.done.size() == 1; }));
  CHECK((s.get(*s.proxy, s.key) == s.value));
}
