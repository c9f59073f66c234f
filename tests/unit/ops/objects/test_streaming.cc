// Values that come and go part by part, while nodes die, maps change and others write the key.
#include <catch2/catch.hpp>
#include <functional>

#include "proxy/ops/jobs/transition.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

namespace {

const std::string kKey = "k";

constexpr size_t kSegment = 4096;  // of the fixture's pools

std::string value_of(size_t size, unsigned salt = 0) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>(i * 31 + i / 253 + salt);
  return value;
}

// What the client does before the part with that number; nothing: it goes away.
using BeforePart = std::function<std::optional<Duration>(size_t part)>;

class ScriptedSource : public ValueSource {
 public:
  ScriptedSource(Clock& clock, std::string value, BeforePart before)
      : clock_(clock), value_(std::move(value)), before_(std::move(before)) {}
  uint64_t size() const override { return value_.size(); }
  Task<Result<Buffer>> next(size_t bytes) override {
    const auto pause = before_(parts_++);
    if (!pause || !co_await clock_.sleep_for(*pause)) {
      co_return fail(ErrorCode::kCancelled, "the client has gone");
    }
    co_return Buffer::copy_of(value_.substr(std::exchange(given_, given_ + bytes), bytes));
  }

 private:
  Clock& clock_;
  const std::string value_;
  const BeforePart before_;
  size_t parts_ = 0;
  size_t given_ = 0;
};

// Nothing is read ahead: each part waits for room.
class ScriptedSink : public WholeSink {
 public:
  ScriptedSink(OpsContext& ops, BeforePart before)
      : WholeSink(ops), clock_(ops.clock), before_(std::move(before)) {}
  MemoryHold try_reserve(uint64_t) override { return nullptr; }
  Task<Result<MemoryHold>> reserve(uint64_t bytes) override {
    const auto pause = before_(parts_++);
    if (!pause || !co_await clock_.sleep_for(*pause)) {
      co_return fail(ErrorCode::kCancelled, "the client has gone");
    }
    co_return co_await WholeSink::reserve(bytes);
  }

 private:
  Clock& clock_;
  const BeforePart before_;
  size_t parts_ = 0;
};

struct Streaming : ClusterFixture {
  explicit Streaming(const std::string& scheme = "rs:2,1", size_t nodes = 7,
                     sim::ProxyMemory memory = {}, Duration read_grace = 2s)
      : ClusterFixture(nodes, scheme) {
    proxy_memory = memory;
    settings.upload_idle = 4s;
    settings.read_grace = read_grace;
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
  }
  Result<StoreOutcome> store(ValueSource& source, StoreVerb verb = StoreVerb::kSet,
                             const std::string& key = "k") {
    StoreRequest request;
    request.verb = verb;
    request.key = key;
    request.value = &source;
    return run(store_object(proxy->ops(), std::move(request), deadline()));
  }
  ScriptedSource source(std::string value, BeforePart before) {
    return {proxy->clock(), std::move(value), std::move(before)};
  }
  Result<ReadOutcome> read(ValueSink& sink) {
    return run(get_object(proxy->ops(), kKey, sink, {}, deadline()));
  }
  RecordPtr record() { return report().record; }
  // Shards, of the segments from that one on.
  size_t missing(size_t first = 0) {
    size_t count = 0;
    const ObjectReport all = report();
    for (size_t i = first; i < all.segments.size(); ++i) count += all.segments[i].missing.size();
    return count;
  }
  uint64_t staged() { return proxy_memory.staged_bytes - proxy->ops().memory.staged.free(); }
  void kill_and_wait(NodeId node) {
    const uint32_t epoch = proxy->map().current()->epoch.number;
    this->node(node).kill(/*silent=*/false);
    REQUIRE(run_until([&] {
      const MapPtr map = proxy->map().current();
      return map != nullptr && map->epoch.number > epoch && serves_whole(*proxy);
    }));
  }
  // Whether some partition has both as homes.
  bool have_a_partition(NodeId a, NodeId b) {
    return std::ranges::any_of(proxy->map().current()->partitions, [&](const auto& partition) {
      return std::ranges::count(partition.homes, a) + std::ranges::count(partition.homes, b) == 2;
    });
  }
  // The node of data shard 0 of the segment that was written first, of an upload that is going on.
  NodeId holder_of_a_shard() {
    for (size_t id = 0; id < network().nodes(); ++id) {
      node::ArenaStore& store = node(id).store();
      bool has_shard = false;
      uint64_t cursor = 0;
      do {
        cursor = store.walk(cursor, [&](const node::ItemRef& item) {
          has_shard |= store.key(item).front() == '\x02';
          return true;
        });
      } while (cursor != 0);
      if (has_shard) return static_cast<NodeId>(id);
    }
    FAIL("no node has a shard");
    return 0;
  }
  sim::SimProxy* proxy = nullptr;

 private:
  ObjectReport report() {
    auto report = run(inspect_object(proxy->ops(), "k", deadline()));
    REQUIRE(report.has_value());
    return std::move(*report);
  }
};

// A spawned flow whose result is looked at later.
template <class T>
Task<void> keep_in(Task<T> flow, std::optional<T>* result) {
  result->emplace(co_await std::move(flow));
}

TEST_CASE("a node that came back empty before the commit has no shards that count") {
  Streaming s("rs:2,1", 8);
  const std::string value = value_of(3 * kSegment, 1);
  // A node of the first segment that neither its last segment nor its record goes to.
  std::string key;
  RecordPtr record;
  std::optional<NodeId> victim;
  for (int i = 0; !victim; ++i) {
    key = "k" + std::to_string(i);
    auto quick = s.source(value, [](size_t) { return 0s; });
    REQUIRE(s.store(quick, StoreVerb::kSet, key).has_value());
    record = s.proxy->ops().cache.find(key);
    const auto homes = s.homes_of(*s.proxy, key);
    const auto& last = record->content.segments.back().placement;
    const auto& first = record->content.segments.front().placement;
    for (const NodeId id : first) {
      const bool is_elsewhere =
          std::ranges::find(homes, id) == homes.end() && std::ranges::find(last, id) == last.end();
      // Another one of them loses its memory too.
      const NodeId other = first[0] == id ? first[1] : first[0];
      if (is_elsewhere && !s.have_a_partition(id, other)) victim = id;
    }
  }
  auto slow = s.source(value, [&](size_t part) -> Duration {
    if (part < 2) return 0s;
    // Too late for the decider to make a map before the commit.
    s.events().after(2s - 200us, [&] {
      s.node(*victim).kill(/*silent=*/false);
      s.node(*victim).start();
    });
    return 2s;
  });
  REQUIRE(s.store(slow, StoreVerb::kSet, key).has_value());
  record = s.proxy->ops().cache.find(key);
  const auto& first = record->content.segments.front().placement;
  s.kill_and_wait(first[0] == *victim ? first[1] : first[0]);
  CHECK(s.get(*s.proxy, key) == value);
}

}  // namespace

TEST_CASE("an upload that a node's death interrupts rebuilds the lost shards onto spare nodes") {
  const auto* scheme = GENERATE("rs:2,1", "ers-2:2,2,3", "rep:2");
  CAPTURE(scheme);
  Streaming s(scheme);
  const std::string value = value_of(5 * kSegment + 100);
  std::optional<NodeId> killed;
  auto source = s.source(value, [&](size_t part) -> std::optional<Duration> {
    if (part != 3) return 1ms;
    killed = s.holder_of_a_shard();
    s.node(*killed).kill(/*silent=*/false);
    return 3s;  // the map changes
  });
  const auto stored = s.store(source);
  REQUIRE(stored == StoreStatus::kStored);
  CHECK(s.proxy->counters().reprepares == 1);
  CHECK(s.missing() == 0);
  for (const node::Segment& segment : s.record()->content.segments) {
    CHECK(std::ranges::find(segment.placement, *killed) == segment.placement.end());
  }
  CHECK(s.get(*s.proxy, "k") == value);
  CHECK(s.proxy->counters().degraded_reads == 0);
  CHECK(s.staged() == 0);
}

TEST_CASE("an upload that is cut leaves no shard behind and gives its memory back") {
  Streaming s("ers-2:2,1,3");
  const auto cut_at = GENERATE(as<size_t>{}, 0, 1, 3, 5);
  CAPTURE(cut_at);
  auto source = s.source(value_of(5 * kSegment + 1), [&](size_t part) -> std::optional<Duration> {
    if (part == cut_at) return std::nullopt;
    return 50ms;
  });
  const auto stored = s.store(source);
  REQUIRE_FALSE(stored.has_value());
  CHECK(stored.error().code == ErrorCode::kCancelled);
  s.run_for(1s);  // reclaim would wait for longer
  CHECK(s.shards() == 0);
  CHECK(s.staged() == 0);
  CHECK(s.get(*s.proxy, "k") == "<miss>");
}

TEST_CASE("an upload whose client takes its time, and then waits for memory, is not fenced") {
  Streaming s("ers-2:2,1,3", 7);
  const std::string value = value_of(3 * kSegment + 7);
  const Duration idle = s.settings.upload_idle;
  auto source = s.source(
      value, [&](size_t part) { return std::optional<Duration>(part == 2 ? 2 * idle : 1ms); });
  REQUIRE(s.store(source) == StoreStatus::kStored);
  CHECK(s.proxy->counters().commit_conflicts == 0);
  CHECK(s.proxy->counters().fences == 0);
  CHECK(s.get(*s.proxy, "k") == value);
}

TEST_CASE("an upload that was fenced commits once its value is staged again") {
  Streaming s("ers-2:2,1,3", 7, {}, /*read_grace=*/60s);  // its old shards are there for so long
  const std::string value = value_of(3 * kSegment + 7);
  auto source = s.source(value, [&](size_t part) {
    if (part == 2) REQUIRE(s.shards() > 0);
    return std::optional<Duration>(part == 2 ? 25s : 1ms);
  });
  const auto stored = s.store(source);
  REQUIRE(stored == StoreStatus::kStored);
  CHECK(s.proxy->counters().commit_conflicts == 1);
  CHECK(s.get(*s.proxy, "k") == value);
  s.run_for(100s);
  CHECK(s.proxy->counters().fences > 0);
  CHECK(s.shards() == 4 * 4);
  CHECK(s.get(*s.proxy, "k") == value);
  CHECK(s.staged() == 0);
}

TEST_CASE("an upload whose shards were reclaimed says that they are lost, and stores nothing") {
  Streaming s;
  auto source = s.source(value_of(3 * kSegment), [](size_t part) {
    return std::optional<Duration>(part == 2 ? 40s : 1ms);
  });
  const auto stored = s.store(source);
  REQUIRE_FALSE(stored.has_value());
  CHECK(stored.error().code == ErrorCode::kLost);
  CHECK(s.get(*s.proxy, "k") == "<miss>");
  s.run_for(1s);
  CHECK(s.shards() == 0);
  CHECK(s.staged() == 0);
}

TEST_CASE("a read goes on when the object transitions and the map changes beneath it") {
  Streaming s("ers-2:2,1,3");
  const std::string value = value_of(4 * kSegment);
  REQUIRE(s.put(*s.proxy, "k", value));
  const uint64_t cas = s.record()->meta.value_version;
  std::optional<Result<ReadOutcome>> outcome;
  std::optional<Result<TransitionOutcome>> transitioned;
  ScriptedSink sink(s.proxy->ops(),
                    [](size_t part) { return std::optional<Duration>(part == 2 ? 20s : 1ms); });
  Scope scope;
  scope.spawn(keep_in(get_object(s.proxy->ops(), kKey, sink, {}, s.deadline()), &outcome));
  REQUIRE(s.run_until([&] { return sink.whole.parts.size() == 2; }));
  scope.spawn(keep_in(transition_object(s.proxy->ops(), {.key = "k", .to = 3}), &transitioned));
  REQUIRE(s.run_until([&] { return transitioned.has_value(); }));
  REQUIRE((*transitioned)->status == ObjectStatus::kDone);
  s.run_for(3s);  // the old parities are gone
  const RecordPtr record = s.record();
  REQUIRE(record->meta.value_version == cas);
  s.kill_and_wait(record->content.segments[2].placement[0]);  // and the new ones needed
  REQUIRE_FALSE(outcome.has_value());
  REQUIRE(s.run_until([&] { return outcome.has_value(); }));
  REQUIRE(outcome->has_value());
  CHECK((*outcome)->path == ReadPath::kDegraded);
  CHECK(sink.whole.value() == value);
}

TEST_CASE("a read of an object that is overwritten goes on within the grace, and not beyond") {
  const bool is_over = GENERATE(false, true);
  CAPTURE(is_over);
  Streaming s("ers-2:2,1,3");
  const std::string value = value_of(4 * kSegment);
  REQUIRE(s.put(*s.proxy, "k", value));
  std::optional<Result<ReadOutcome>> outcome;
  ScriptedSink sink(s.proxy->ops(), [&](size_t part) {
    return std::optional<Duration>(part == 2 && is_over ? 5s : 100ms);
  });
  Scope scope;
  scope.spawn(keep_in(get_object(s.proxy->ops(), kKey, sink, {}, s.deadline()), &outcome));
  REQUIRE(s.run_until([&] { return sink.whole.parts.size() == 2; }));
  StoreRequest request;
  request.key = "k";
  std::optional<Result<StoreOutcome>> stored;
  scope.spawn(keep_in(store_value(s.proxy->ops(), request, value_of(4 * kSegment, 9), s.deadline()),
                      &stored));
  REQUIRE(s.run_until([&] { return outcome.has_value() && stored.has_value(); }));
  REQUIRE(**stored == StoreStatus::kStored);
  if (is_over) {
    REQUIRE_FALSE(outcome->has_value());
    CHECK(outcome->error().code == ErrorCode::kConflict);
    CHECK(sink.whole.value() == value.substr(0, 2 * kSegment));
  } else {
    REQUIRE(outcome->has_value());
    CHECK(sink.whole.value() == value);
  }
}

TEST_CASE("a read whose client goes away ends, and gives its memory back") {
  Streaming s;
  REQUIRE(s.put(*s.proxy, "k", value_of(4 * kSegment)));
  const uint64_t early = s.proxy->ops().memory.read.early.free();
  const uint64_t in_turn = s.proxy->ops().memory.read.in_turn.free();
  {
    ScriptedSink sink(s.proxy->ops(), [](size_t part) -> std::optional<Duration> {
      if (part == 2) return std::nullopt;
      return 1ms;
    });
    const auto outcome = s.read(sink);
    REQUIRE_FALSE(outcome.has_value());
    CHECK(outcome.error().code == ErrorCode::kCancelled);
    CHECK(sink.whole.parts.size() == 2);
  }
  CHECK(s.run_until([&] { return s.proxy->ops().memory.read.early.free() == early; }));
  CHECK(s.proxy->ops().memory.read.in_turn.free() == in_turn);
}

TEST_CASE("an append takes the memory of a few segments, however large the object is") {
  // The added bytes, a segment that is read, and one with its parity that is written.
  constexpr uint64_t kJoining = 10 + kSegment + (kSegment + kSegment / 2);
  Streaming s("rs:2,1", 7, {.staged_bytes = kJoining, .read_bytes = 1 << 20});
  const std::string value = value_of(40 * kSegment + 11);
  auto first = s.source(value, [](size_t) { return std::optional<Duration>(1ms); });
  REQUIRE(s.store(first) == StoreStatus::kStored);
  auto added = s.source("0123456789", [](size_t) { return std::optional<Duration>(1ms); });
  REQUIRE(s.store(added, StoreVerb::kAppend) == StoreStatus::kStored);
  CHECK(s.get(*s.proxy, "k") == value + "0123456789");
  CHECK(s.staged() == 0);
}

TEST_CASE("appends that hold all the memory of writes begin again when a node dies") {
  // Each append has just the memory of its own, and more of them wait for the key, and hold theirs:
  // eight segments, and one of them with its parity.
  constexpr size_t kAdded = 8 * kSegment;
  constexpr uint64_t kJoining = kAdded + kSegment + kSegment / 2;
  Streaming s("rs:2,1", 7, {.staged_bytes = 3 * kJoining, .read_bytes = 1 << 20});
  std::string value = value_of(8 * kSegment + 11);
  REQUIRE(s.put(*s.proxy, "k", value));
  // The last shards of the first append are late; a node with shards of it dies meanwhile.
  size_t writes = 0;
  s.network().set_delay_rule(
      [&](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode != node::Opcode::kShardWrite || ++writes != 23) return std::nullopt;
        return 1s;
      });
  std::vector<std::optional<Result<StoreOutcome>>> stored(3);
  Scope scope;
  for (auto& outcome : stored) {
    StoreRequest request;
    request.verb = StoreVerb::kAppend;
    request.key = "k";
    scope.spawn(
        keep_in(store_value(s.proxy->ops(), request, std::string(kAdded, 'x'), s.deadline() + 60s),
                &outcome));
    value += std::string(kAdded, 'x');
  }
  REQUIRE(s.run_until([&] { return writes >= 23; }));
  s.run_for(10ms);
  const NodeId victim = s.holder_of_a_shard();
  s.node(victim).kill(/*silent=*/false);
  REQUIRE(s.run_until([&] {
    return std::ranges::all_of(stored, [](const auto& outcome) { return outcome.has_value(); });
  }));
  for (const auto& outcome : stored) REQUIRE(*outcome == StoreStatus::kStored);
  CHECK(writes > 3 * 24);  // shards of each
  CHECK(s.get(*s.proxy, "k") == value);
  CHECK(s.missing(/*first=*/9) == 0);  // the others were there before
  CHECK(s.staged() == 0);
  s.network().set_delay_rule(nullptr);
}
