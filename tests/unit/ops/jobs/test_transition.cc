// Transitions of single objects between their two states, over real flows and nodes.
#include <catch2/catch.hpp>
#include <numeric>

#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/jobs/transition.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

namespace {

struct Serving {
  explicit Serving(const std::string& scheme, size_t nodes = 9) : cluster(nodes, scheme) {
    cluster.settings.upload_idle = 30s;
    proxy = &cluster.add_proxy();
    decider = &cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(*decider); }));
    follow();
  }
  void follow() { proxy->map().serve(decider->map().current()); }
  Result<TransitionOutcome> transition(int to, Execution execution = Execution::kDelta,
                                       const std::string& key = "key") {
    return cluster.run(
        transition_object(proxy->ops(), {.key = key, .to = to, .execution = execution}));
  }
  RecordPtr record(const std::string& key = "key") {
    const auto report = cluster.run(inspect_object(proxy->ops(), key, cluster.deadline()));
    REQUIRE(report.has_value());
    return report->record;
  }
  size_t missing(const std::string& key = "key") {
    const auto report = cluster.run(inspect_object(proxy->ops(), key, cluster.deadline()));
    REQUIRE(report.has_value());
    return std::accumulate(
        report->segments.begin(), report->segments.end(), size_t{0},
        [](size_t sum, const SegmentHealth& segment) { return sum + segment.missing.size(); });
  }

  ClusterFixture cluster;
  sim::SimProxy* proxy = nullptr;
  sim::SimProxy* decider = nullptr;
};

std::string value_of(size_t size) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>(i * 31 + i / 253);
  return value;
}

}  // namespace

TEST_CASE("an object goes forward and back, reads the same, and survives m crashes in each state") {
  const std::string scheme = GENERATE(as<std::string>{}, "ers-2:4,2,5", "ers-1:4,2,5", "srs:4,2,5",
                                      "ers-2:3,1,6", "srs:3,2,6");
  const Execution execution = GENERATE(Execution::kDelta, Execution::kProxy);
  const bool kills_when_wide = GENERATE(false, true);
  INFO(scheme << (execution == Execution::kDelta ? " delta" : " proxy"));
  Serving s(scheme);
  const auto code = coding::parse_scheme(scheme).value();
  const std::string value = value_of(10'001);  // three segments, the last one short
  REQUIRE(s.cluster.put(*s.proxy, "key", value));
  const auto before = s.record();
  const uint64_t shards = s.cluster.shards();

  auto forward = s.transition(code.k_prime, execution);
  REQUIRE(forward.has_value());
  CHECK(forward->status == ObjectStatus::kDone);
  const auto wide = s.record();
  CHECK(wide->meta.value_version == before->meta.value_version);
  for (const auto& segment : wide->content.segments) {
    CHECK(segment.state == coding::State::kWide);
    CHECK(segment.generation == 1);
  }
  CHECK(s.cluster.get(*s.proxy, "key") == value);
  CHECK(s.missing() == 0);
  s.cluster.run_for(30s);  // the old generation goes
  CHECK(s.cluster.shards() == shards);

  if (!kills_when_wide) {
    auto again = s.transition(code.k_prime, execution);
    REQUIRE(again.has_value());
    CHECK(again->status == ObjectStatus::kAlreadyThere);
    auto back = s.transition(code.k, execution);
    REQUIRE(back.has_value());
    CHECK(back->status == ObjectStatus::kDone);
    CHECK(s.record()->content.segments.front().generation == 2);
    CHECK(s.cluster.get(*s.proxy, "key") == value);
    s.cluster.run_for(30s);
    CHECK(s.cluster.shards() == shards);
  }
  // Every segment loses data shards only, so that all parities count.
  const auto placement = s.record()->content.segments.front().placement;
  for (int i = 0; i < code.m; ++i) s.cluster.node(placement[static_cast<size_t>(i)]).kill(false);
  s.cluster.run_for(10s);
  s.follow();
  CHECK(s.cluster.get(*s.proxy, "key") == value);
}

TEST_CASE("what crosses the network is what the plan says") {
  const Execution execution = GENERATE(Execution::kDelta, Execution::kProxy);
  Serving s("ers-2:4,1,5");
  REQUIRE(s.cluster.put(*s.proxy, "key", value_of(12'000)));
  const auto expected =
      expected_traffic(s.record()->content, {.key = "key", .to = 5, .execution = execution});
  REQUIRE(expected.has_value());
  const auto done = s.transition(5, execution);
  REQUIRE(done.has_value());
  // ERS (4,1,5), three segments: 6 blocks of each by deltas, 12 by the proxy.
  CHECK(done->traffic.blocks_read + done->traffic.blocks_sent ==
        (execution == Execution::kDelta ? 18 : 36));
  CHECK(done->traffic.blocks_read == expected->blocks_read);
  CHECK(done->traffic.blocks_sent == expected->blocks_sent);
  CHECK(done->traffic.bytes_read == expected->bytes_read);
  CHECK(done->traffic.bytes_sent == expected->bytes_sent);
}

TEST_CASE("what can not be transitioned is told with the reason") {
  Serving s("ers-2:4,2,5");
  const auto status_of = [&](const std::string& key, int to) {
    const auto outcome = s.transition(to, Execution::kDelta, key);
    REQUIRE(outcome.has_value());
    return std::pair(outcome->status, outcome->reason);
  };
  CHECK(status_of("key", 5).first == ObjectStatus::kNoObject);
  REQUIRE(s.cluster.put(*s.proxy, "key", "small"));
  CHECK(status_of("key", 5) == std::pair(ObjectStatus::kSkipped, std::string("inline")));
  REQUIRE(s.cluster.put(*s.proxy, "weak:key", value_of(1000)));
  CHECK(status_of("weak:key", 5) == std::pair(ObjectStatus::kSkipped, std::string("rs")));
  REQUIRE(s.cluster.put(*s.proxy, "key", value_of(1000)));
  CHECK(status_of("key", 6) == std::pair(ObjectStatus::kSkipped, std::string("other scheme")));
}

TEST_CASE("an object with a missing shard is refused, and nothing is left behind") {
  const size_t shard = GENERATE(as<size_t>{}, 0, 2, 4, 5, 6);
  const Execution execution = GENERATE(Execution::kDelta, Execution::kProxy);
  Serving s("ers-2:4,2,5");
  const std::string value = value_of(3000);
  REQUIRE(s.cluster.put(*s.proxy, "key", value));
  const NodeId lost = s.record()->content.segments.front().placement[shard];
  s.cluster.node(lost).kill(false);
  s.cluster.run_for(5s);
  s.cluster.node(lost).start();  // empty: its shards are gone
  s.cluster.run_for(20s);
  s.follow();
  const uint64_t shards = s.cluster.shards();
  const auto outcome = s.transition(5, execution);
  REQUIRE(outcome.has_value());
  CHECK(outcome->status == ObjectStatus::kRefused);
  CHECK(outcome->reason == fmt::format("segment 0: shard {} is missing (on node-{})", shard, lost));
  s.cluster.run_for(5s);
  CHECK(s.cluster.shards() == shards);
  CHECK(s.cluster.get(*s.proxy, "key") == value);
}

TEST_CASE("a touch in between does not stop a transition, a write does") {
  Serving s("ers-2:4,2,5");
  const std::string value = value_of(4000);
  REQUIRE(s.cluster.put(*s.proxy, "key", value));
  const bool writes = GENERATE(false, true);
  // The other one commits while the parity nodes are asked.
  bool begun = false;
  s.cluster.network().set_delay_rule(
      [&](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode != node::Opcode::kShardBuild) return std::nullopt;
        begun = true;
        return 500ms;
      });
  Scope scope;
  std::optional<Result<TransitionOutcome>> outcome;
  scope.spawn([](OpsContext& ops, auto* result) -> Task<void> {
    result->emplace(co_await transition_object(ops, {.key = "key", .to = 5}));
  }(s.proxy->ops(), &outcome));
  REQUIRE(s.cluster.run_until([&] { return begun; }));
  if (writes) {
    REQUIRE(s.cluster.put(*s.proxy, "key", value + "new"));
  } else {
    const auto later = static_cast<uint32_t>(s.proxy->clock().unix_ms() / 1000 + 1000);
    REQUIRE(s.cluster.run(touch_object(s.proxy->ops(), "key", later, s.cluster.deadline())));
  }
  REQUIRE(s.cluster.run_until([&] { return outcome.has_value() && scope.live() == 0; }));
  REQUIRE(outcome->has_value());
  if (writes) {
    CHECK((*outcome)->status == ObjectStatus::kOverwritten);
    CHECK(s.cluster.get(*s.proxy, "key") == value + "new");
    CHECK(s.record()->content.segments.front().state == coding::State::kNarrow);
  } else {
    CHECK((*outcome)->status == ObjectStatus::kDone);
    CHECK(s.cluster.get(*s.proxy, "key") == value);
    CHECK(s.record()->content.exptime != 0);
    CHECK(s.record()->content.segments.front().state == coding::State::kWide);
  }
  s.cluster.run_for(30s);
  CHECK(s.cluster.shards() == s.record()->content.segments.size() * 7);
}

TEST_CASE("a transition goes on from one that reached the head only before its proxy died") {
  Serving s("ers-2:4,2,5");
  const std::string value = value_of(30'000);  // two windows
  REQUIRE(s.cluster.put(*s.proxy, "key", value));
  bool stores = false;
  s.cluster.network().set_delay_rule(
      [&, first = s.proxy->id()](int proxy, NodeId,
                                 const node::RequestHeader& header) -> std::optional<Duration> {
        if (proxy != first || header.opcode != node::Opcode::kRecordStore) return {};
        stores = true;
        return Duration(1h);
      });
  Scope scope;
  scope.spawn([](OpsContext& ops) -> Task<void> {
    (void)co_await transition_object(ops, {.key = "key", .to = 5});
  }(s.proxy->ops()));
  REQUIRE(s.cluster.run_until([&] { return stores; }));
  s.proxy->kill();
  REQUIRE(s.cluster.run_until([&] { return scope.live() == 0; }));

  s.proxy = &s.cluster.add_proxy();
  s.follow();
  CHECK(s.record()->content.segments.front().state == coding::State::kNarrow);
  const auto outcome = s.transition(5);
  REQUIRE(outcome.has_value());
  CHECK(outcome->status == ObjectStatus::kDone);
  const auto record = s.record();
  for (const auto& segment : record->content.segments) {
    CHECK(segment.state == coding::State::kWide);
    CHECK(segment.generation == 1);
  }
  CHECK(s.cluster.get(*s.proxy, "key") == value);
  CHECK(s.missing() == 0);
}

TEST_CASE("a node that is only silent may have its shards: nothing is refused for it") {
  Serving s("ers-2:4,2,5");
  REQUIRE(s.cluster.put(*s.proxy, "key", value_of(3000)));
  const NodeId silent = s.record()->content.segments[0].placement[1];
  s.cluster.node(silent).stall();
  REQUIRE(s.cluster.run_until(
      [&] {
        const MapPtr map = s.decider->map().current();
        return map != nullptr && !map->is_up(silent);
      },
      30s));
  REQUIRE(s.cluster.run_until([&] { return s.cluster.serves_whole(*s.decider); }));
  s.follow();
  const auto waits = s.transition(5);
  REQUIRE_FALSE(waits.has_value());
  CHECK(waits.error().code == ErrorCode::kUnavailable);

  s.cluster.node(silent).resume();
  REQUIRE(s.cluster.run_until(
      [&] {
        const MapPtr map = s.decider->map().current();
        return map != nullptr && map->is_up(silent) && s.cluster.serves_whole(*s.decider);
      },
      30s));
  s.follow();
  const auto there = s.transition(5);
  REQUIRE(there.has_value());
  CHECK(there->status == ObjectStatus::kDone);
}

TEST_CASE("a reader that knows the object from before its transition reads its shards once") {
  const bool forth = GENERATE(true, false);
  constexpr int kShards = 5;  // of data, in each of three segments
  Serving s("ers-2:4,1,5");
  const std::string value = value_of(10'001);
  REQUIRE(s.cluster.put(*s.proxy, "key", value));
  if (!forth) REQUIRE(s.transition(5).has_value());
  sim::SimProxy& reader = s.cluster.add_proxy();
  reader.map().serve(s.decider->map().current());
  REQUIRE(s.cluster.get(reader, "key") == value);
  REQUIRE(s.transition(forth ? 5 : 4)->status == ObjectStatus::kDone);

  int reads = 0;
  s.cluster.network().set_delay_rule(
      [&](int proxy, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        reads += proxy == reader.id() && header.opcode == node::Opcode::kShardRead;
        return std::nullopt;
      });
  CHECK(s.cluster.get(reader, "key") == value);
  CHECK(reads == 3 * kShards);
  reads = 0;
  CHECK(
      s.cluster.run(get_whole(reader.ops(), "key", s.cluster.deadline(), {5000, 1000}))->value() ==
      value.substr(5000, 1000));
  CHECK(reads <= kShards);
}

TEST_CASE("an object that was written anew since it was cached goes as it is now") {
  Serving s("ers-2:4,2,5");
  REQUIRE(s.cluster.put(*s.proxy, "key", value_of(10'001)));
  const RecordPtr old = s.record();
  REQUIRE(s.cluster.put(*s.proxy, "key", value_of(9'000)));
  const auto outcome = s.cluster.run(transition_object(
      s.proxy->ops(), {.key = "key", .to = 5, .known = old, .known_may_be_old = true}));
  REQUIRE(outcome.has_value());
  CHECK(outcome->status == ObjectStatus::kDone);
  CHECK(outcome->object_bytes == 9'000);
  CHECK(s.record()->content.segments[0].state == coding::State::kWide);
  CHECK(s.cluster.get(*s.proxy, "key") == value_of(9'000));
}

TEST_CASE("a reader whose known parities are gone decodes by those of the newest record") {
  const bool whole = GENERATE(true, false);
  Serving s("ers-2:4,2,5");
  const std::string value = value_of(10'001);
  REQUIRE(s.cluster.put(*s.proxy, "key", value));
  sim::SimProxy& reader = s.cluster.add_proxy();
  reader.map().serve(s.decider->map().current());
  REQUIRE(s.cluster.get(reader, "key") == value);
  REQUIRE(s.transition(5)->status == ObjectStatus::kDone);
  s.cluster.run_for(30s);  // the parities of before go
  s.cluster.node(s.record()->content.segments[0].placement[1]).kill(false);
  s.cluster.run_for(10s);
  s.follow();
  reader.map().serve(s.decider->map().current());
  const ByteRange range = whole ? ByteRange{} : ByteRange{1000, 3000};
  const auto read = s.cluster.run(get_whole(reader.ops(), "key", s.cluster.deadline(), range));
  REQUIRE(read.has_value());
  CHECK(read->value() == (whole ? value : value.substr(1000, 3000)));
  CHECK(read->path == ReadPath::kDegraded);
}

TEST_CASE("a pool that writes wide values keeps what it promises of them") {
  Serving s("rs:2,1");
  const std::string key = "wide:key";
  const std::string value = value_of(10'001);  // three segments
  REQUIRE(s.cluster.put(*s.proxy, key, value));
  const auto record = s.record(key);
  for (const auto& segment : record->content.segments) {
    CHECK(segment.state == coding::State::kWide);
    CHECK(segment.generation == 0);
  }
  CHECK(s.missing(key) == 0);
  const auto scrubbed = s.cluster.run(scrub_object(s.proxy->ops(), key, s.cluster.deadline()));
  REQUIRE(scrubbed.has_value());
  CHECK(scrubbed->is_clean());
  SECTION("they are read without one of their nodes") {
    s.cluster.node(record->content.segments[0].placement[0]).kill(false);
    s.cluster.run_for(10s);
    s.follow();
    CHECK(s.cluster.get(*s.proxy, key) == value);
  }
  SECTION("they go to the narrow state and back") {
    CHECK(s.transition(3, Execution::kDelta, key)->status == ObjectStatus::kAlreadyThere);
    CHECK(s.transition(2, Execution::kDelta, key)->status == ObjectStatus::kDone);
    CHECK(s.transition(3, Execution::kProxy, key)->status == ObjectStatus::kDone);
    CHECK(s.cluster.get(*s.proxy, key) == value);
  }
}

TEST_CASE("a pool that writes as before takes the state of the object that is replaced") {
  const size_t size = GENERATE(3000u, 10'001u);  // one segment, three
  Serving s("rs:2,1");
  const std::string key = "as-before:key";
  const auto state = [&] { return s.record(key)->content.segments.back().state; };
  const auto put = [&](sim::SimProxy& by, size_t bytes) {
    REQUIRE(s.cluster.put(by, key, value_of(bytes)));
    return state();
  };
  CHECK(put(*s.proxy, size) == coding::State::kNarrow);
  CHECK(put(*s.proxy, size + 1) == coding::State::kNarrow);
  REQUIRE(s.transition(3, Execution::kDelta, key)->status == ObjectStatus::kDone);
  CHECK(put(*s.proxy, size + 2) == coding::State::kWide);
  CHECK(put(*s.proxy, size + 3) == coding::State::kWide);

  // Another proxy does not know the object, and asks nobody just for this; the head of a value that
  // has several segments it asks anyway.
  sim::SimProxy& other = s.cluster.add_proxy();
  other.map().serve(s.decider->map().current());
  const auto unasked = size < 4096 ? coding::State::kNarrow : coding::State::kWide;
  CHECK(put(other, size) == unasked);
  REQUIRE(s.transition(3, Execution::kDelta, key).has_value());
  REQUIRE(s.cluster.get(other, key) == value_of(size));
  CHECK(put(other, size + 1) == coding::State::kWide);

  StoreRequest request;
  request.verb = StoreVerb::kAppend;
  request.key = key;
  sim::SimProxy& third = s.cluster.add_proxy();
  third.map().serve(s.decider->map().current());
  REQUIRE(s.cluster.run(store_value(third.ops(), request, "more", s.cluster.deadline())) ==
          StoreStatus::kStored);
  CHECK(state() == coding::State::kWide);

  REQUIRE(s.cluster.run(remove_object(s.proxy->ops(), key, s.cluster.deadline())).value());
  CHECK(put(*s.proxy, size) == coding::State::kNarrow);
}
