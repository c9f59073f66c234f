// append and prepend of striped objects write what is added, and short segments that are next to
// it.
#include <catch2/catch.hpp>
#include <random>

#include "proxy/ops/jobs/repair.h"
#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/jobs/transition.h"
#include "proxy/ops/objects/extend_segments.h"
#include "proxy/ops/objects/fold.h"
#include "proxy/ops/objects/object_read.h"
#include "tests/unit/ops/objects/update_calls.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace std::chrono_literals;

namespace {

constexpr size_t kShards = 4;      // of a segment
constexpr size_t kSegment = 4096;  // bytes

struct Extending : ClusterFixture {
  explicit Extending(sim::ProxyMemory memory = {}) : ClusterFixture(7, "ers-2:2,1,3") {
    settings.read_grace = 2s;
    proxy_memory = memory;
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
    network().set_delay_rule(
        [this](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
          reads += header.opcode == node::Opcode::kShardRead;
          writes += header.opcode == node::Opcode::kShardWrite;
          return std::nullopt;
        });
  }
  ~Extending() { network().set_delay_rule(nullptr); }

  void set(const std::string& bytes) {
    REQUIRE(put(*proxy, "k", bytes));
    value = bytes;
  }
  // So many segments, each of which was added by itself.
  void set_with_own_names(unsigned segments) {
    set(bytes_of(kSegment, 0));
    for (unsigned i = 1; i < segments; ++i) extend(bytes_of(kSegment, i), /*in_front=*/false);
  }
  // Notes what it took.
  void extend(const std::string& bytes, bool in_front) {
    reads = writes = 0;
    const auto stored =
        store(*proxy, in_front ? StoreVerb::kPrepend : StoreVerb::kAppend, "k", bytes);
    INFO((stored ? "" : to_string(stored.error())));
    REQUIRE(stored.has_value());
    REQUIRE(*stored == StoreStatus::kStored);
    value = in_front ? bytes + value : value + bytes;
  }
  void update(uint64_t offset, const std::string& bytes) {
    const auto outcome =
        run(update_with(proxy->ops(), {.key = "k", .offset = offset}, bytes, deadline()));
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->status == UpdateStatus::kUpdated);
    value.replace(offset, bytes.size(), bytes);
  }
  RecordPtr record() {
    const auto report = run(inspect_object(proxy->ops(), "k", deadline()));
    REQUIRE(report.has_value());
    return report->record;
  }
  std::vector<uint32_t> lengths() {
    std::vector<uint32_t> result;
    for (const node::Segment& segment : record()->content.segments) {
      result.push_back(segment.length);
    }
    return result;
  }
  void check() {
    CHECK(get(*proxy, "k") == value);
    uint64_t boundary = 0;
    for (const uint32_t length : lengths()) {
      const uint64_t from = boundary - std::min<uint64_t>(boundary, 3);
      const auto part = run(get_whole(proxy->ops(), "k", deadline(), {from, 7}));
      REQUIRE(part.has_value());
      CHECK(part->value() == value.substr(from, 7));
      boundary += length;
    }
    const auto report = run(jobs::scrub_object(proxy->ops(), "k", deadline()));
    REQUIRE(report.has_value());
    CHECK(report->is_clean());
  }
  // All shards that are left are those of the object.
  void check_shards() {
    run_for(300s);
    CHECK(shards() == lengths().size() * kShards);
    check();
  }

  std::string value;
  size_t reads = 0;  // frames of the last change
  size_t writes = 0;
  sim::SimProxy* proxy = nullptr;
};

}  // namespace

TEST_CASE("what is added lies in segments of its own, and the others are as before", "[extend]") {
  const bool in_front = GENERATE(false, true);
  Extending s;
  s.set(bytes_of(3 * kSegment, 1));
  const auto before = s.record()->content.segments;

  s.extend(bytes_of(20, 2), in_front);
  CHECK(s.reads == 0);
  CHECK(s.writes == kShards);
  const auto after = s.record()->content.segments;
  REQUIRE(after.size() == 4);
  for (size_t i = 0; i < 3; ++i) CHECK(after[i + (in_front ? 1 : 0)] == before[i]);
  s.check();

  s.extend(bytes_of(30, 3), in_front);
  CHECK(s.reads > 0);
  CHECK(s.reads <= kShards);
  CHECK(s.writes == kShards);
  s.check();
  CHECK(s.lengths().size() == 4);

  s.extend(bytes_of(2 * kSegment + 100, 4), in_front);
  CHECK(s.reads == 0);
  CHECK(s.writes == 3 * kShards);
  auto lengths = s.lengths();
  if (in_front) std::ranges::reverse(lengths);
  CHECK(lengths == std::vector<uint32_t>{4096, 4096, 4096, 50, 4096, 4096, 100});
  s.check_shards();
}

TEST_CASE("many small appends and prepends make few segments", "[extend]") {
  Extending s;
  s.set(bytes_of(1000, 1));
  std::mt19937 random(1);
  for (unsigned i = 0; i < 300; ++i) {
    s.extend(bytes_of(1 + random() % 90, i), random() % 2 == 0);
    CHECK(s.writes == kShards);  // of one segment
  }
  CHECK(s.get(*s.proxy, "k") == s.value);
  // Two neighbours do not fit in one, but for those that get shorter to each end.
  CHECK(s.lengths().size() <= 2 * (s.value.size() / kSegment + 1) + 12);
  s.check_shards();
}

TEST_CASE("segments at an end are joined when enough is added", "[extend]") {
  const Pool pool{.prefix = "", .scheme = {}, .segment_bytes = 4u << 20};
  const uint64_t most = GENERATE(uint64_t{100}, uint64_t{1000}, uint64_t{64} << 10,
                                 uint64_t{200} << 10, uint64_t{9} << 20);
  const bool in_front = GENERATE(false, true);
  const bool varies = GENERATE(false, true);
  CAPTURE(most, in_front, varies);
  std::mt19937_64 random(1);
  node::RecordContent content;
  node::Segment first;
  first.length = 4u << 20;
  content.segments = {first};
  uint64_t size = first.length;
  uint64_t written = 0;
  uint64_t added = 0;
  constexpr int kTimes = 2000;
  for (int i = 0; i < kTimes; ++i) {
    const uint64_t bytes = varies ? 1 + random() % most : most;
    const auto changes = changes_of_extension(pool, content, bytes, in_front);
    uint64_t length = 0;
    uint64_t given = 0;
    std::vector<node::Segment> fresh;
    uint64_t kept = 0;
    for (const SegmentChange& change : changes) {
      REQUIRE(change.length <= pool.segment_bytes);
      node::Segment segment;
      segment.length = change.length;
      fresh.push_back(segment);
      length += change.length;
      REQUIRE(change.given.offset == given);
      given += change.given.length;
      REQUIRE(change.first == (in_front ? 0 : content.segments.size() - change.count));
      for (size_t j = 0; j < change.count; ++j) kept += content.segments[change.first + j].length;
    }
    REQUIRE(given == bytes);
    REQUIRE(length == bytes + kept);
    const auto count = static_cast<ptrdiff_t>(changes.front().count);
    auto& segments = content.segments;
    if (in_front) {
      segments.erase(segments.begin(), segments.begin() + count);
      segments.insert(segments.begin(), fresh.begin(), fresh.end());
    } else {
      segments.erase(segments.end() - count, segments.end());
      segments.insert(segments.end(), fresh.begin(), fresh.end());
    }
    size += bytes;
    added += bytes;
    written += length;
  }
  // No more than twice as many as there have to be, and those that get shorter to the end.
  CHECK(content.segments.size() <= 2 * (size / pool.segment_bytes + 1) + 8);
  // Each joining but those of the shortest makes a segment longer by half at least.
  const uint64_t shortest = pool.segment_bytes / 64;
  CHECK(written <= 12 * added + kTimes * shortest);
}

TEST_CASE("what the log has for any segment is written with what is added", "[extend]") {
  const bool in_front = GENERATE(false, true);
  Extending s;
  s.set(bytes_of(4 * kSegment, 1));
  s.extend("short", in_front);
  s.update(2 * kSegment - 10, std::string(20, 'x'));
  s.update(in_front ? 1 : 4 * kSegment + 1, "xy");  // of the short one
  REQUIRE(s.proxy->counters().logged_updates == 2);
  const auto cas = [&] {
    const auto read = s.run(get_whole(s.proxy->ops(), "k", s.deadline()));
    REQUIRE(read.has_value());
    return read->object->cas;
  };
  const uint64_t before = cas();
  s.extend(" and more", in_front);
  CHECK(s.writes == kShards);  // the others are patched
  CHECK(cas() > before);
  s.check();
  const auto end = s.run(objects::fold_object(s.proxy->ops(), "k", s.deadline()));
  REQUIRE(end.has_value());
  CHECK(*end == objects::FoldEnd::kNothing);
  s.update(kSegment, "again");
  s.check_shards();
}

TEST_CASE("an object that grows beyond an end is read as it was by who has begun", "[extend]") {
  const bool in_front = GENERATE(false, true);
  Extending s;
  s.set(bytes_of(8 * kSegment + 10, 1));
  const std::string before = s.value;
  StagedRead memory(kSegment, s.proxy->clock(), UINT64_MAX);
  ObjectRead read(s.proxy->ops(), "k", memory, ByteRange{}, s.deadline());
  REQUIRE(s.run(read.open()).has_value());
  s.extend("more", in_front);
  std::string seen;
  while (!read.at_end()) {
    const auto part = s.run(read.next());
    REQUIRE(part.has_value());
    seen += part->text();
  }
  CHECK(seen == before);
  s.check();
}

TEST_CASE("appends and prepends of two proxies lose none of each other", "[extend]") {
  Extending s;
  s.set(bytes_of(2 * kSegment + 50, 1));
  sim::SimProxy& other = s.add_proxy();
  other.map().serve(s.proxy->map().current());
  constexpr size_t kEach = 10;
  size_t done = 0;
  Scope scope;
  const auto write = [](Extending& at, sim::SimProxy& by, StoreVerb verb, char fill,
                        size_t& count) -> Task<void> {
    for (size_t i = 0; i < kEach; ++i) {
      StoreRequest request;
      request.verb = verb;
      request.key = "k";
      const auto stored =
          co_await store_value(by.ops(), request, std::string(30, fill), at.deadline());
      if (stored && *stored == StoreStatus::kStored) ++count;
    }
  };
  scope.spawn(write(s, *s.proxy, StoreVerb::kAppend, 'a', done));
  scope.spawn(write(s, other, StoreVerb::kAppend, 'a', done));
  scope.spawn(write(s, other, StoreVerb::kPrepend, 'p', done));
  REQUIRE(s.run_until([&] { return scope.live() == 0; }));
  CHECK(done == 3 * kEach);
  s.value = std::string(30 * kEach, 'p') + s.value + std::string(60 * kEach, 'a');
  s.check_shards();
}

namespace {

// Runs a job's flow of the object, and a change of its length that much later.
template <class Outcome>
Outcome run_beside_extension(Extending& s, Task<Result<Outcome>> flow, int milliseconds,
                             bool in_front) {
  std::optional<Result<Outcome>> outcome;
  const auto keep = [](Task<Result<Outcome>> running,
                       std::optional<Result<Outcome>>* result) -> Task<void> {
    *result = co_await std::move(running);
  };
  Scope scope;
  scope.spawn(keep(std::move(flow), &outcome));
  s.run_for(std::chrono::milliseconds(milliseconds));
  s.extend("what is added", in_front);
  REQUIRE(s.run_until([&] { return outcome && scope.live() == 0; }));
  REQUIRE(outcome->has_value());
  return std::move(**outcome);
}

}  // namespace

TEST_CASE("an append or prepend beside a repair does not keep it from its work", "[extend]") {
  const bool in_front = GENERATE(false, true);
  for (const int milliseconds : {0, 1, 2, 3, 4, 6, 8, 12}) {
    CAPTURE(milliseconds, in_front);
    Extending s;
    s.set_with_own_names(9);
    const NodeId dead = s.record()->content.segments[4].placement[0];
    s.node(dead).kill(/*silent=*/false);
    REQUIRE(s.run_until([&] {
      return state_of(*s.proxy, dead) == node::NodeState::kLost && s.serves_whole(*s.proxy);
    }));
    const auto outcome = run_beside_extension(s, jobs::repair_object(s.proxy->ops(), {.key = "k"}),
                                              milliseconds, in_front);
    CHECK(outcome.status == jobs::ObjectStatus::kDone);
    const auto now = s.run(inspect_object(s.proxy->ops(), "k", s.deadline()));
    REQUIRE(now.has_value());
    for (const SegmentHealth& segment : now->segments) CHECK(segment.missing.empty());
    s.check_shards();
  }
}

TEST_CASE("an append or prepend beside a transition does not keep it from its work", "[extend]") {
  const bool in_front = GENERATE(false, true);
  for (const int milliseconds : {0, 1, 2, 3, 4, 6, 8, 12}) {
    CAPTURE(milliseconds, in_front);
    Extending s;
    s.set_with_own_names(9);
    const auto outcome = run_beside_extension(
        s, jobs::transition_object(s.proxy->ops(), {.key = "k", .to = 3}), milliseconds, in_front);
    CHECK(outcome.status == jobs::ObjectStatus::kDone);
    for (const node::Segment& segment : s.record()->content.segments) {
      CHECK(segment.state == coding::State::kWide);
    }
    s.extend(bytes_of(3000, 5), in_front);  // coded as its neighbour
    for (const node::Segment& segment : s.record()->content.segments) {
      CHECK(segment.state == coding::State::kWide);
    }
    const auto back = s.run(jobs::transition_object(s.proxy->ops(), {.key = "k", .to = 2}));
    REQUIRE(back.has_value());
    CHECK(back->status == jobs::ObjectStatus::kDone);
    s.check_shards();
  }
}

TEST_CASE("an append and a prepend read and write around a node that is gone", "[extend]") {
  Extending s;
  s.set(bytes_of(2 * kSegment, 1));
  s.extend("short", false);
  s.extend("short", true);
  const NodeId dead = s.record()->content.segments.back().placement[0];
  s.node(dead).kill(/*silent=*/false);
  REQUIRE(s.run_until([&] {
    return state_of(*s.proxy, dead) == node::NodeState::kLost && s.serves_whole(*s.proxy);
  }));
  s.extend("longer", false);
  s.extend("longer", true);
  CHECK(s.proxy->counters().degraded_reads >= 1);
  CHECK(s.get(*s.proxy, "k") == s.value);
  const auto now = s.run(inspect_object(s.proxy->ops(), "k", s.deadline()));
  REQUIRE(now.has_value());
  CHECK(now->segments.back().missing.empty());
  CHECK(now->segments.front().missing.empty());
}

TEST_CASE("an append takes the memory of what it writes", "[extend]") {
  // 20 bytes that are added, and a segment of them with its parity.
  Extending s({.staged_bytes = 1000});
  const uint64_t free = s.proxy->ops().memory.staged.free();
  s.set(bytes_of(3 * kSegment, 1));
  for (unsigned i = 0; i < 10; ++i) s.extend(bytes_of(20, i), i % 2 == 0);
  s.check();
  CHECK(s.proxy->ops().memory.staged.free() == free);
}
