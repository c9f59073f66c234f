// flush_all: a map makes every value that was committed before it a miss.
#include <catch2/catch.hpp>

#include "proxy/ops/jobs/transition.h"
#include "proxy/ops/objects/object_read.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

namespace {

const std::string kBig(10'000, 'x');  // striped, of several segments

struct Serving : ClusterFixture {
  explicit Serving(const std::string& scheme = "rs:2,1") : ClusterFixture(5, scheme) {
    settings.upload_idle = 3s;
    settings.read_grace = 1s;
    settings.tombstone_keep = 5s;
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
  }
  Result<void> flush(uint32_t at = 0) { return run(proxy->decider()->flush_all(at, deadline())); }
  uint32_t now_s() { return static_cast<uint32_t>(proxy->clock().unix_ms() / 1000); }
  uint32_t epoch() { return proxy->map().current()->epoch.number; }
  StoreOutcome store(StoreVerb verb, const std::string& key, const std::string& value) {
    StoreRequest request;
    request.verb = verb;
    request.key = key;
    return run(store_value(proxy->ops(), request, value, deadline())).value();
  }
  CounterStatus count(const std::string& key) {
    return run(change_counter(proxy->ops(), {.key = key, .delta = 1, .increment = true},
                              deadline()))
        .value()
        .status;
  }
  // The next decider, when the first is gone.
  void take_over() {
    proxy->kill();
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
  }

  sim::SimProxy* proxy = nullptr;
};

}  // namespace

TEST_CASE("a flush makes every value a miss, and what is stored later lives") {
  Serving s;
  for (const char* key : {"small", "counter"}) REQUIRE(s.put(*s.proxy, key, "7"));
  REQUIRE(s.put(*s.proxy, "big", kBig));
  REQUIRE(s.get(*s.proxy, "big") == kBig);  // its record is cached
  REQUIRE(s.flush());
  for (const char* key : {"small", "counter", "big"}) CHECK(s.get(*s.proxy, key) == "<miss>");
  CHECK(s.count("counter") == CounterStatus::kNotFound);
  for (const StoreVerb verb : {StoreVerb::kAppend, StoreVerb::kPrepend, StoreVerb::kReplace}) {
    CHECK(s.store(verb, "small", "x") == StoreStatus::kNotStored);
    CHECK(s.store(verb, "big", "x") == StoreStatus::kNotStored);
    CHECK(s.store(verb, "big", kBig) == StoreStatus::kNotStored);
  }
  CHECK_FALSE(s.run(touch_object(s.proxy->ops(), "big", 0, s.deadline())).value());
  CHECK_FALSE(s.run(remove_object(s.proxy->ops(), "small", s.deadline())).value());
  CHECK(s.store(StoreVerb::kAdd, "small", "new") == StoreStatus::kStored);
  CHECK(s.store(StoreVerb::kAdd, "big", kBig + "new") == StoreStatus::kStored);
  CHECK(s.get(*s.proxy, "small") == "new");
  CHECK(s.get(*s.proxy, "big") == kBig + "new");
}

TEST_CASE("what was flushed gives its memory back") {
  Serving s;
  for (int i = 0; i < 20; ++i) REQUIRE(s.put(*s.proxy, "small" + std::to_string(i), "value"));
  for (int i = 0; i < 5; ++i) REQUIRE(s.put(*s.proxy, "big" + std::to_string(i), kBig));
  REQUIRE(s.put(*s.proxy, "weak:1", "value", /*exptime=*/s.now_s() + 1));
  REQUIRE(s.flush());
  REQUIRE(s.put(*s.proxy, "live", "value"));
  CHECK(s.run_until(
      [&] { return s.shards() == 0 && s.records() == s.homes_of(*s.proxy, "live").size(); }, 120s));
  CHECK(s.get(*s.proxy, "live") == "value");
}

TEST_CASE("a value that is appended to while all is flushed does not come back") {
  Serving s;
  REQUIRE(s.put(*s.proxy, "big", kBig));
  // Between the read of the old value and the commit of the new one.
  bool flushed = false;
  s.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    const bool is_commit = header.opcode == node::Opcode::kRecordApply && !flushed;
    return is_commit ? std::optional<Duration>(1500ms) : std::nullopt;
  });
  std::optional<Result<StoreOutcome>> appended;
  Scope scope;
  scope.spawn([](Serving& serving, std::optional<Result<StoreOutcome>>* out) -> Task<void> {
    StoreRequest request;
    request.verb = StoreVerb::kAppend;
    request.key = "big";
    out->emplace(co_await store_value(serving.proxy->ops(), request, "more", serving.deadline()));
  }(s, &appended));
  s.run_for(700ms);
  REQUIRE_FALSE(appended);
  REQUIRE(s.flush());
  flushed = true;
  REQUIRE(s.run_until([&] { return appended.has_value(); }));
  CHECK(appended->value() == StoreStatus::kNotStored);
  CHECK(s.get(*s.proxy, "big") == "<miss>");
}

TEST_CASE("objects that were flushed are not there for transitions, scrubs and inspection") {
  Serving s("ers:2,1,3");
  REQUIRE(s.put(*s.proxy, "big", kBig));
  REQUIRE(s.flush());
  const auto outcome = s.run(transition_object(s.proxy->ops(), {.key = "big", .to = 3}));
  REQUIRE(outcome);
  CHECK(outcome->status == ObjectStatus::kNoObject);
  const auto report = s.run(inspect_object(s.proxy->ops(), "big", s.deadline()));
  REQUIRE(report);
  CHECK(report->is_flushed);
}

TEST_CASE("clients that flush at the same time share a map, and a flood keeps its distance") {
  Serving s;
  const uint32_t before = s.epoch();
  int answered = 0;
  Scope scope;
  const auto flush = [](Serving& serving, int* count) -> Task<void> {
    const auto flushed = co_await serving.proxy->decider()->flush_all(0, serving.deadline());
    *count += flushed.has_value();
  };
  for (int i = 0; i < 100; ++i) scope.spawn(flush(s, &answered));
  REQUIRE(s.run_until([&] { return answered == 100; }));
  CHECK(s.epoch() == before + 1);

  const TimePoint began = s.events().now();
  for (int i = 0; i < 50; ++i) REQUIRE(s.flush());
  const auto heartbeats = (s.events().now() - began) / s.decider_settings.heartbeat;
  CHECK(s.epoch() == before + 51);
  CHECK(heartbeats >= 100);
}

TEST_CASE("a flush outlives its decider, and nodes that were away") {
  Serving s;
  REQUIRE(s.put(*s.proxy, "key", "old"));
  const auto home = s.homes_of(*s.proxy, "key").front();
  s.node(home).stall();
  REQUIRE(s.run_until([&] { return state_of(*s.proxy, home) == node::NodeState::kSuspect; }));
  REQUIRE(s.run_until([&] { return s.serves_whole(*s.proxy); }));
  REQUIRE(s.flush());
  REQUIRE(s.put(*s.proxy, "other", "new"));
  s.take_over();
  CHECK(s.get(*s.proxy, "key") == "<miss>");
  s.node(home).resume();
  REQUIRE(s.run_until([&] { return state_of(*s.proxy, home) == node::NodeState::kUp; }));
  REQUIRE(s.run_until([&] { return s.serves_whole(*s.proxy); }));
  CHECK(s.get(*s.proxy, "key") == "<miss>");
  CHECK(s.get(*s.proxy, "other") == "new");
}

TEST_CASE("a flush waits for a node that has just fallen silent, and then does without it") {
  Serving s;
  REQUIRE(s.put(*s.proxy, "key", "old"));
  s.node(2).stall();
  s.run_for(4 * s.decider_settings.heartbeat);
  const uint32_t before = s.epoch();
  REQUIRE(s.flush());
  CHECK(s.epoch() == before + 1);  // the map that excludes the node flushes
  CHECK(state_of(*s.proxy, 2) == node::NodeState::kSuspect);
  CHECK(s.get(*s.proxy, "key") == "<miss>");
}

TEST_CASE("a flush that no majority can agree to is not done") {
  Serving s;
  REQUIRE(s.put(*s.proxy, "key", "old"));
  for (size_t id = 0; id < 4; ++id) s.node(id).stall();
  s.run_for(2s);
  const auto flushed = s.flush();
  REQUIRE_FALSE(flushed);
  CHECK(flushed.error().code == ErrorCode::kUnavailable);
  for (size_t id = 0; id < 4; ++id) s.node(id).resume();
  REQUIRE(s.run_until([&] { return s.serves_whole(*s.proxy); }));
  s.run_for(5s);
  CHECK(s.get(*s.proxy, "key") == "old");
}

TEST_CASE("a flush for later takes what was stored until then") {
  Serving s;
  REQUIRE(s.put(*s.proxy, "before", "value"));
  const uint32_t at = s.now_s() + 5;
  REQUIRE(s.flush(at));
  CHECK(s.proxy->decider()->status().flush_at == at);
  REQUIRE(s.put(*s.proxy, "meanwhile", "value"));
  s.run_for(3s);
  CHECK(s.get(*s.proxy, "before") == "value");
  CHECK(s.get(*s.proxy, "meanwhile") == "value");
  s.run_for(3s);
  CHECK(s.get(*s.proxy, "before") == "<miss>");
  CHECK(s.get(*s.proxy, "meanwhile") == "<miss>");
  CHECK(s.proxy->decider()->status().flush_at == 0);
  REQUIRE(s.put(*s.proxy, "after", "value"));
  s.run_for(10s);
  CHECK(s.get(*s.proxy, "after") == "value");
}

TEST_CASE("one flush is pending at most") {
  Serving s;
  REQUIRE(s.put(*s.proxy, "key", "value"));
  REQUIRE(s.flush(s.now_s() + 3));
  SECTION("a later time replaces it") {
    REQUIRE(s.flush(s.now_s() + 60));
    s.run_for(10s);
    CHECK(s.get(*s.proxy, "key") == "value");
  }
  SECTION("a flush at once replaces it") {
    REQUIRE(s.flush());
    CHECK(s.proxy->decider()->status().flush_at == 0);
    REQUIRE(s.put(*s.proxy, "key", "value"));
    s.run_for(10s);
    CHECK(s.get(*s.proxy, "key") == "value");
  }
  SECTION("a time that has passed is at once") {
    REQUIRE(s.flush(s.now_s() - 100));
    CHECK(s.proxy->decider()->status().flush_at == 0);
    CHECK(s.get(*s.proxy, "key") == "<miss>");
  }
}

TEST_CASE("a pending flush outlives its decider") {
  Serving s;
  REQUIRE(s.put(*s.proxy, "key", "value"));
  REQUIRE(s.flush(s.now_s() + 20));
  s.take_over();
  CHECK(s.get(*s.proxy, "key") == "value");
  s.run_for(25s);
  CHECK(s.get(*s.proxy, "key") == "<miss>");
}

TEST_CASE("a wall clock that is set forward flushes nothing early") {
  Serving s;
  REQUIRE(s.put(*s.proxy, "key", "value"));
  REQUIRE(s.flush(s.now_s() + 3600));
  s.run_for(1s);
  s.proxy->clock().set_wall_clock_by(2h);
  s.run_for(60s);
  CHECK(s.get(*s.proxy, "key") == "value");
  s.proxy->clock().set_wall_clock_by(-2h);
  s.run_for(60s);
  CHECK(s.get(*s.proxy, "key") == "value");
  CHECK(s.proxy->decider()->status().flush_at != 0);
}

TEST_CASE("who is deposed flushes nothing more") {
  Serving s;
  auto& second = s.add_decider();
  REQUIRE(s.run_until([&] { return s.serves_whole(second); }));
  REQUIRE(s.run_until([&] { return s.proxy->decider_has_ended(); }));
  const auto flushed = s.flush();
  REQUIRE_FALSE(flushed);
  CHECK(flushed.error().code == ErrorCode::kUnavailable);
}
