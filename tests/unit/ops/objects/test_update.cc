// Parts of values are changed in place of nothing: readers see the old value or the new one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "proxy/ops/jobs/recycle_job.h"
#include "proxy/ops/jobs/recycler.h"
#include "proxy/ops/jobs/repair.h"
#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/jobs/transition.h"
#include "proxy/ops/objects/fold.h"
#include "proxy/ops/records/read_tail.h"
#include "tests/unit/ops/objects/update_calls.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace std::chrono_literals;

namespace {

struct Updating : ClusterFixture {
  explicit Updating(size_t nodes = 7) : ClusterFixture(nodes, "ers-2:2,1,3") {
    settings.read_grace = 2s;
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
  }
  Result<UpdateOutcome> update(uint64_t offset, const std::string& bytes,
                               std::optional<uint64_t> cas = {}) {
    return run(
        update_with(proxy->ops(), {.key = key, .offset = offset, .cas = cas}, bytes, deadline()));
  }
  UpdateStatus status(uint64_t offset, const std::string& bytes, std::optional<uint64_t> cas = {}) {
    const auto outcome = update(offset, bytes, cas);
    INFO((outcome ? "" : to_string(outcome.error())));
    REQUIRE(outcome.has_value());
    return outcome->status;
  }
  Object read() {
    const auto outcome = run(get_whole(proxy->ops(), key, deadline()));
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->object.has_value());
    return *outcome->object;
  }
  jobs::JobProgress recycle(jobs::JobSpec spec) {
    jobs::RecycleJob job(proxy->ops(), {.job = std::move(spec)});
    Scope scope;
    scope.spawn(job.run());
    REQUIRE(run_until([&] { return scope.live() == 0; }));
    CHECK(job.progress().state == jobs::JobState::kDone);
    CHECK(job.progress().counts.failed == 0);
    return job.progress();
  }
  void check_clean() {
    const auto report = run(jobs::scrub_object(proxy->ops(), key, deadline()));
    REQUIRE(report.has_value());
    CHECK(report->is_clean());
  }

  // One of a pool without update logs: segments are written again.
  std::string key = "k";
  sim::SimProxy* proxy = nullptr;
};

constexpr size_t kShards = 4;      // of a segment
constexpr size_t kSegment = 4096;  // bytes

}  // namespace

TEST_CASE("an update changes the bytes that it has, and the cas", "[update]") {
  struct Case {
    size_t size, offset, length;
  };
  const auto [size, offset, length] = GENERATE(
      Case{10, 0, 10}, Case{10, 3, 4}, Case{64, 63, 1}, Case{65, 0, 1}, Case{5000, 0, 5000},
      Case{5000, 4090, 12}, Case{5000, 4096, 904}, Case{12000, 1, 11998}, Case{12000, 8000, 1});
  CAPTURE(size, offset, length);
  Updating s;
  std::string value = bytes_of(size, 1);
  REQUIRE(s.put(*s.proxy, "k", value));
  const Object before = s.read();
  const std::string bytes = bytes_of(length, 99);
  const auto outcome = s.update(offset, bytes);
  REQUIRE(outcome.has_value());
  CHECK(outcome->status == UpdateStatus::kUpdated);
  CHECK(outcome->size == size);
  value.replace(offset, length, bytes);
  CHECK(s.get(*s.proxy, "k") == value);
  const Object after = s.read();
  CHECK(after.cas > before.cas);
  CHECK(after.cas == outcome->cas);
  CHECK(after.flags == before.flags);
  s.check_clean();
}

TEST_CASE("an update leaves other segments alone, and no shards behind", "[update]") {
  Updating s;
  s.key = "unlogged:k";
  std::string value = bytes_of(5 * kSegment, 1);
  REQUIRE(s.put(*s.proxy, s.key, value));
  REQUIRE(s.shards() == 5 * kShards);
  REQUIRE(s.status(2 * kSegment - 10, std::string(20, 'x')) == UpdateStatus::kUpdated);
  value.replace(2 * kSegment - 10, 20, std::string(20, 'x'));
  CHECK(s.shards() == 5 * kShards + 2 * 2);  // in two segments a data shard and the parity are new
  s.run_for(5s);
  CHECK(s.shards() == 5 * kShards);
  CHECK(s.get(*s.proxy, s.key) == value);
  s.check_clean();
  s.run_for(200s);  // reclaim has nothing to find
  CHECK(s.shards() == 5 * kShards);
  CHECK(s.get(*s.proxy, s.key) == value);
}

TEST_CASE("what can not be updated is told, and left as it is", "[update]") {
  const size_t size = GENERATE(size_t{10}, size_t{5000});
  Updating s;
  CHECK(s.status(0, "x") == UpdateStatus::kNotFound);
  const std::string value = bytes_of(size, 1);
  REQUIRE(s.put(*s.proxy, "k", value));
  CHECK(s.status(size, "x") == UpdateStatus::kOutOfRange);
  CHECK(s.status(size - 1, "xy") == UpdateStatus::kOutOfRange);
  CHECK(s.status(UINT64_MAX, "xy") == UpdateStatus::kOutOfRange);
  const uint64_t cas = s.read().cas;
  CHECK(s.status(0, "x", cas + 1) == UpdateStatus::kExists);
  CHECK(s.update(size, "")->cas == cas);  // no bytes, no change
  CHECK(s.get(*s.proxy, "k") == value);
  CHECK(s.status(0, "x", cas) == UpdateStatus::kUpdated);
  CHECK(s.status(0, "y", cas) == UpdateStatus::kExists);
  s.proxy->ops().counters = {};
  const auto large = s.update(0, std::string((1 << 20) + 1, 'x'));
  REQUIRE_FALSE(large.has_value());
  CHECK(large.error().code == ErrorCode::kTooLarge);
  REQUIRE(s.run(remove_object(s.proxy->ops(), "k", s.deadline())).value());
  CHECK(s.status(0, "x") == UpdateStatus::kNotFound);
  REQUIRE(s.put(*s.proxy, "k", value, /*exptime=*/1));  // long ago
  CHECK(s.status(0, "x") == UpdateStatus::kNotFound);
  CHECK(s.status(size, "x") == UpdateStatus::kNotFound);
}

TEST_CASE("updates lie in a log until they are folded into shards", "[update]") {
  Updating s;
  std::string value = bytes_of(5 * kSegment, 1);
  REQUIRE(s.put(*s.proxy, "k", value));
  const auto change = [&](size_t offset, const std::string& bytes) {
    REQUIRE(s.status(offset, bytes) == UpdateStatus::kUpdated);
    value.replace(offset, bytes.size(), bytes);
  };
  change(2 * kSegment - 10, std::string(20, 'x'));  // over two segments
  change(2 * kSegment - 5, std::string(30, 'y'));   // over some of that
  change(7, "seven");
  CHECK(s.proxy->counters().logged_updates == 3);
  CHECK(s.shards() == 5 * kShards);
  CHECK(s.get(*s.proxy, "k") == value);
  const uint64_t cas = s.read().cas;

  const auto fold = [&] {
    const auto end = s.run(objects::fold_object(s.proxy->ops(), "k", s.deadline()));
    REQUIRE(end.has_value());
    return *end;
  };
  REQUIRE(fold() == objects::FoldEnd::kFolded);
  CHECK(fold() == objects::FoldEnd::kNothing);
  // A data shard and the parity of each of three segments are new, beside those that were.
  CHECK(s.shards() == 5 * kShards + 3 * 2);
  CHECK(s.get(*s.proxy, "k") == value);
  CHECK(s.read().cas == cas);  // it is the same value
  s.run_for(5s);
  CHECK(s.shards() == 5 * kShards);
  s.check_clean();
  CHECK(s.get(*s.proxy, "k") == value);

  change(kSegment, "more");
  CHECK(s.read().cas > cas);
  REQUIRE(s.put(*s.proxy, "k", bytes_of(3 * kSegment, 2)));  // a log is of one value
  CHECK(s.get(*s.proxy, "k") == bytes_of(3 * kSegment, 2));
  CHECK(fold() == objects::FoldEnd::kNothing);
}

TEST_CASE("a part of a value is read with what its log has over that part", "[update]") {
  Updating s;
  if (GENERATE(false, true)) s.key = "once:k";
  std::string value = bytes_of(3 * kSegment, 1);
  REQUIRE(s.put(*s.proxy, s.key, value));
  const auto change = [&](size_t offset, const std::string& bytes) {
    REQUIRE(s.status(offset, bytes) == UpdateStatus::kUpdated);
    value.replace(offset, bytes.size(), bytes);
  };
  const auto check = [&](uint64_t offset, uint64_t length) {
    CAPTURE(offset, length);
    const auto read = s.run(get_whole(s.proxy->ops(), s.key, s.deadline(), {offset, length}));
    REQUIRE(read.has_value());
    REQUIRE(read->object.has_value());
    CHECK((read->value() == value.substr(offset, length)));
  };
  const auto check_all = [&] {
    for (const uint64_t begin : {uint64_t{0}, uint64_t{99}, uint64_t{100}, uint64_t{129},
                                 uint64_t{130}, kSegment - 11, kSegment - 10, uint64_t{kSegment}}) {
      for (const uint64_t length :
           {uint64_t{1}, uint64_t{10}, uint64_t{30}, uint64_t{kSegment}, 3 * uint64_t{kSegment}}) {
        check(begin, length);
      }
    }
  };
  change(100, std::string(30, 'x'));
  change(kSegment - 10, std::string(20, 'y'));  // over two segments
  check_all();
  change(120, std::string(5, 'z'));  // over some of the first
  check_all();
  REQUIRE(s.run(fold_object(s.proxy->ops(), s.key, s.deadline())));
  check_all();
  change(128, std::string(4, 'w'));  // over what is folded
  check_all();
  CHECK(s.proxy->counters().logged_updates == 4);
}

TEST_CASE("updates of one object that come at the same time go to the copies together",
          "[update]") {
  Updating s;
  std::string value = bytes_of(3 * kSegment, 1);
  REQUIRE(s.put(*s.proxy, "k", value));
  constexpr size_t kUpdates = 100;
  std::set<uint64_t> uniques;
  const auto write = [](Updating& at, size_t number, std::set<uint64_t>& told) -> Task<void> {
    const auto outcome = co_await update_with(at.proxy->ops(), {.key = "k", .offset = number * 50},
                                              bytes_of(60, number), at.deadline());
    if (outcome && outcome->status == UpdateStatus::kUpdated) told.insert(outcome->cas);
  };
  Scope scope;
  for (size_t i = 0; i < kUpdates; ++i) scope.spawn(write(s, i, uniques));
  REQUIRE(s.run_until([&] { return scope.live() == 0; }));
  CHECK(uniques.size() == kUpdates);
  CHECK(s.proxy->counters().logged_updates == kUpdates);
  CHECK(s.proxy->counters().update_rounds < kUpdates / 5);
  // They overlap: the order is that of their numbers, which is what a read shows before and after.
  const std::string read = s.get(*s.proxy, "k");
  for (size_t i = 0; i < kUpdates; ++i) {
    CHECK(read.substr(i * 50 + 10, 40) == bytes_of(60, i).substr(10, 40));
  }
  REQUIRE(s.run(objects::fold_object(s.proxy->ops(), "k", s.deadline())));
  CHECK(s.get(*s.proxy, "k") == read);
  s.check_clean();
}

TEST_CASE("an object shows what its log has, and what is folded", "[update]") {
  Updating s;
  const auto inspect = [&] {
    const auto report = s.run(inspect_object(s.proxy->ops(), "k", s.deadline()));
    REQUIRE(report.has_value());
    return *report;
  };
  REQUIRE(s.put(*s.proxy, "k", bytes_of(2 * kSegment, 1)));
  CHECK_FALSE(inspect().log.has_value());
  CHECK(inspect().last_lsn() == 0);
  const uint64_t version = inspect().record->meta.version;
  REQUIRE(s.status(5, "hello") == UpdateStatus::kUpdated);
  REQUIRE(s.status(7, "worlds") == UpdateStatus::kUpdated);
  s.run_for(1s);  // the tail has been told what is settled
  ObjectReport report = inspect();
  REQUIRE(report.log.has_value());
  CHECK(report.last_lsn() == version + 2);
  CHECK(report.log->settled_to == version + 2);
  CHECK(report.log->settled_bytes == 8);
  CHECK(report.log->unsettled_bytes == 0);
  CHECK(report.log->age_ms >= 1000);
  REQUIRE(s.run(objects::fold_object(s.proxy->ops(), "k", s.deadline())).has_value());
  report = inspect();
  CHECK_FALSE(report.log.has_value());
  CHECK(report.last_lsn() == version + 2);
  CHECK(report.record->content.segments[0].folded_lsn == version + 2);
  CHECK(report.record->content.segments[1].folded_lsn == 0);
}

TEST_CASE("a log is folded around a node that is gone, into segments that are whole", "[update]") {
  Updating s;
  std::string value = bytes_of(2 * kSegment, 1);
  REQUIRE(s.put(*s.proxy, "k", value));
  const auto report = s.run(inspect_object(s.proxy->ops(), "k", s.deadline()));
  REQUIRE(report.has_value());
  REQUIRE(s.status(5, "hello") == UpdateStatus::kUpdated);
  value.replace(5, 5, "hello");
  const NodeId dead = report->record->content.segments[0].placement[0];
  s.node(dead).kill(/*silent=*/false);
  REQUIRE(s.run_until([&] {
    return state_of(*s.proxy, dead) == node::NodeState::kLost && s.serves_whole(*s.proxy);
  }));
  CHECK(s.get(*s.proxy, "k") == value);  // the log has moved with the record, or was elsewhere
  const auto end = s.run(objects::fold_object(s.proxy->ops(), "k", s.deadline()));
  REQUIRE(end.has_value());
  CHECK(*end == objects::FoldEnd::kFolded);
  CHECK(s.get(*s.proxy, "k") == value);
  const auto now = s.run(inspect_object(s.proxy->ops(), "k", s.deadline()));
  REQUIRE(now.has_value());
  CHECK(now->segments[0].missing.empty());
}

TEST_CASE("a recycler folds what is old", "[update]") {
  Updating s;
  std::string value = bytes_of(2 * kSegment, 1);
  REQUIRE(s.put(*s.proxy, "k", value));
  REQUIRE(s.status(5, "hello") == UpdateStatus::kUpdated);
  value.replace(5, 5, "hello");
  jobs::Recycler recycler(s.proxy->ops(), {});
  s.run_for(500ms);
  CHECK(s.run(recycler.round(1s, 0)) == 0);
  s.run_for(600ms);
  CHECK(s.run(recycler.round(1s, 0)) == 1);
  CHECK(s.run(recycler.round(0s, 0)) == 0);
  const OpsCounters& counters = s.proxy->counters();
  CHECK(counters.folded_logs == 1);
  CHECK(counters.folded_bytes == 5);
  CHECK(counters.fold_us > 0);
  CHECK(counters.folded_age_ms >= 1000);
  CHECK(counters.folded_age_ms < 1500);
  CHECK(s.get(*s.proxy, "k") == value);
}

TEST_CASE("a recycler leaves what was written last in the logs", "[update]") {
  Updating s;
  jobs::Recycler recycler(s.proxy->ops(), {});
  for (const char* key : {"a", "b", "c"}) {
    s.key = key;
    REQUIRE(s.put(*s.proxy, key, bytes_of(2 * kSegment, 1)));
  }
  for (const char* key : {"a", "b", "c", "a"}) {
    s.key = key;
    REQUIRE(s.status(5, "hello") == UpdateStatus::kUpdated);
    s.run_for(20ms);
  }
  // Whoever has them as a tail: each of the three may be at a node of its own.
  CHECK(s.run(recycler.round(0s, 1000)) == 0);
  CHECK(s.run(recycler.round(0s, 4)) == 3);
  CHECK(s.proxy->counters().folded_logs == 3);
  CHECK(s.run(recycler.round(0s, 0)) == 0);
}

TEST_CASE("recyclers do not fold what another one is folding", "[update]") {
  Updating s;
  REQUIRE(s.put(*s.proxy, "k", bytes_of(2 * kSegment, 1)));
  REQUIRE(s.status(5, "hello") == UpdateStatus::kUpdated);
  const auto fold = [&](bool takes) {
    const auto end = s.run(objects::fold_object(s.proxy->ops(), "k", s.deadline(), takes));
    REQUIRE(end.has_value());
    return *end;
  };
  jobs::Recycler recycler(s.proxy->ops(), {});
  // One that dies after it has taken the log.
  const auto map = s.proxy->map().current();
  REQUIRE(s.run(records::try_read_to_fold(s.proxy->ops(), map, "k", true, s.deadline()))->log);
  CHECK(fold(true) == objects::FoldEnd::kNothing);
  CHECK(s.run(recycler.round(0s, 0)) == 0);
  s.run_for(5s);
  CHECK(s.run(recycler.round(0s, 0)) == 1);
  CHECK(s.proxy->counters().folded_logs == 1);

  REQUIRE(s.status(5, "HELLO") == UpdateStatus::kUpdated);
  REQUIRE(s.run(records::try_read_to_fold(s.proxy->ops(), map, "k", true, s.deadline()))->log);
  CHECK(fold(false) == objects::FoldEnd::kFolded);
}

TEST_CASE("a recycle folds the logs that there are, however young", "[update]") {
  Updating s;
  for (const char* key : {"a/1", "a/2", "b/1", "b/2", "c"}) {
    REQUIRE(s.put(*s.proxy, key, bytes_of(2 * kSegment, 1)));
  }
  REQUIRE(s.put(*s.proxy, "small", "inline"));
  for (const char* key : {"a/1", "a/2", "b/1"}) {
    s.key = key;
    REQUIRE(s.status(5, "hello") == UpdateStatus::kUpdated);
  }
  const auto folded = [&] { return s.proxy->counters().folded_logs; };
  const auto planned = s.recycle({.dry_run = true});
  CHECK(planned.planned.objects == 3);
  CHECK(planned.planned.traffic.bytes_sent == 3 * 5 * 2);
  CHECK(planned.counts.already_there == 2);
  CHECK(planned.counts.skipped.at("inline") == 1);
  CHECK(folded() == 0);
  CHECK(s.recycle({.key = "a/2"}).counts.done == 1);
  CHECK(s.recycle({.key = "a/2"}).counts.already_there == 1);
  CHECK(folded() == 1);
  const auto prefixed = s.recycle({.prefix = "a/"});
  CHECK(prefixed.counts.done == 1);
  CHECK(prefixed.counts.already_there == 1);
  CHECK(folded() == 2);
  const auto all = s.recycle({});
  CHECK(all.counts.done == 1);
  CHECK(all.counts.seen == 6);
  CHECK(all.done.object_bytes == 2 * kSegment);
  CHECK(folded() == 3);
  std::string value = bytes_of(2 * kSegment, 1);
  value.replace(5, 5, "hello");
  for (const char* key : {"a/1", "a/2", "b/1"}) {
    CHECK(s.get(*s.proxy, key) == value);
    s.key = key;
    s.check_clean();
    const auto report = s.run(inspect_object(s.proxy->ops(), key, s.deadline()));
    REQUIRE(report.has_value());
    CHECK_FALSE(report->log.has_value());
  }
}

TEST_CASE("a fold that takes long leaves segments to the next, and a recycle goes on with them",
          "[update]") {
  Updating s;
  constexpr size_t kSegments = 6;
  std::string value = bytes_of(kSegments * kSegment, 1);
  REQUIRE(s.put(*s.proxy, "k", value));
  for (size_t segment = 0; segment < kSegments; ++segment) {
    REQUIRE(s.status(segment * kSegment + 5, "hello") == UpdateStatus::kUpdated);
    value.replace(segment * kSegment + 5, 5, "hello");
  }
  // A segment takes two rounds of them, so a fold comes to two of the segments in its time.
  s.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    const bool is_slow = header.opcode == node::Opcode::kShardPatch;
    return is_slow ? std::optional<Duration>(150ms) : std::nullopt;
  });
  const auto unfolded = [&] {
    const auto report = s.run(inspect_object(s.proxy->ops(), "k", s.deadline()));
    REQUIRE(report.has_value());
    return std::ranges::count(report->record->content.segments, 0, &node::Segment::folded_lsn);
  };
  const auto end = s.run(objects::fold_object(s.proxy->ops(), "k", s.deadline()));
  REQUIRE(end.has_value());
  CHECK(*end == objects::FoldEnd::kPart);
  CHECK(unfolded() == 4);
  CHECK(s.get(*s.proxy, "k") == value);
  CHECK(s.recycle({.key = "k"}).counts.done == 1);
  CHECK(s.proxy->counters().folded_logs == 3);
  CHECK(unfolded() == 0);
  CHECK(s.get(*s.proxy, "k") == value);
  s.check_clean();
}

TEST_CASE("an update reads around a node that is gone, and writes what it touches whole",
          "[update]") {
  Updating s;
  s.key = "unlogged:k";
  std::string value = bytes_of(2 * kSegment, 1);
  REQUIRE(s.put(*s.proxy, s.key, value));
  const auto report = s.run(inspect_object(s.proxy->ops(), s.key, s.deadline()));
  REQUIRE(report.has_value());
  const NodeId dead = report->record->content.segments[0].placement[0];
  s.node(dead).kill(/*silent=*/false);
  REQUIRE(s.run_until([&] {
    return state_of(*s.proxy, dead) == node::NodeState::kLost && s.serves_whole(*s.proxy);
  }));
  REQUIRE(s.status(5, "hello") == UpdateStatus::kUpdated);
  value.replace(5, 5, "hello");
  CHECK(s.get(*s.proxy, s.key) == value);
  const auto now = s.run(inspect_object(s.proxy->ops(), s.key, s.deadline()));
  REQUIRE(now.has_value());
  CHECK(now->segments[0].missing.empty());
}

TEST_CASE("updates of one object by two proxies lose none of each other", "[update]") {
  const size_t size = GENERATE(size_t{40}, 2 * kSegment);
  Updating s;
  std::string value = bytes_of(size, 1);
  REQUIRE(s.put(*s.proxy, "k", value));
  sim::SimProxy& other = s.add_proxy();
  other.map().serve(s.proxy->map().current());
  constexpr size_t kEach = 10;
  size_t done = 0;
  Scope scope;
  const auto write = [](Updating& at, sim::SimProxy& by, size_t first,
                        size_t& count) -> Task<void> {
    for (size_t i = first; i < 2 * kEach; i += 2) {
      const auto outcome =
          co_await update_with(by.ops(), {.key = "k", .offset = i},
                               std::string(1, static_cast<char>('A' + i)), at.deadline());
      if (outcome && outcome->status == UpdateStatus::kUpdated) ++count;
    }
  };
  scope.spawn(write(s, *s.proxy, 0, done));
  scope.spawn(write(s, other, 1, done));
  REQUIRE(s.run_until([&] { return scope.live() == 0; }));
  CHECK(done == 2 * kEach);
  for (size_t i = 0; i < 2 * kEach; ++i) value[i] = static_cast<char>('A' + i);
  CHECK(s.get(*s.proxy, "k") == value);
  s.run_for(300s);
  CHECK(s.shards() == (size > 64 ? 2 * kShards : 0));
  if (size > 64) s.check_clean();
}

namespace {

// Runs a job's flow of the object, and an update of its last segment that much later.
template <class Outcome>
Outcome run_beside_update(Updating& s, Task<Result<Outcome>> flow, int milliseconds) {
  std::optional<Result<Outcome>> outcome;
  const auto keep = [](Task<Result<Outcome>> running,
                       std::optional<Result<Outcome>>* result) -> Task<void> {
    *result = co_await std::move(running);
  };
  Scope scope;
  scope.spawn(keep(std::move(flow), &outcome));
  s.run_for(std::chrono::milliseconds(milliseconds));
  REQUIRE(s.status(9 * kSegment + 7, "updated") == UpdateStatus::kUpdated);
  REQUIRE(s.run_until([&] { return outcome && scope.live() == 0; }));
  REQUIRE(outcome->has_value());
  return std::move(**outcome);
}

}  // namespace

TEST_CASE("an update beside a repair does not keep it from making all segments whole", "[update]") {
  for (const int milliseconds : {0, 1, 2, 3, 4, 6, 8, 12}) {
    CAPTURE(milliseconds);
    Updating s;
    std::string value = bytes_of(10 * kSegment, 1);
    REQUIRE(s.put(*s.proxy, "k", value));
    const auto before = s.run(inspect_object(s.proxy->ops(), "k", s.deadline()));
    REQUIRE(before.has_value());
    const NodeId dead = before->record->content.segments[0].placement[0];
    s.node(dead).kill(/*silent=*/false);
    REQUIRE(s.run_until([&] {
      return state_of(*s.proxy, dead) == node::NodeState::kLost && s.serves_whole(*s.proxy);
    }));
    const auto outcome =
        run_beside_update(s, jobs::repair_object(s.proxy->ops(), {.key = "k"}), milliseconds);
    CHECK(outcome.status == jobs::ObjectStatus::kDone);
    value.replace(9 * kSegment + 7, 7, "updated");
    CHECK(s.get(*s.proxy, "k") == value);
    const auto now = s.run(inspect_object(s.proxy->ops(), "k", s.deadline()));
    REQUIRE(now.has_value());
    for (const SegmentHealth& segment : now->segments) CHECK(segment.missing.empty());
    s.check_clean();
    s.run_for(300s);
    CHECK(s.shards() == 10 * kShards);
  }
}

TEST_CASE("an update beside a transition does not keep it from taking all segments", "[update]") {
  for (const int milliseconds : {0, 1, 2, 3, 4, 6, 8, 12}) {
    CAPTURE(milliseconds);
    Updating s;
    std::string value = bytes_of(10 * kSegment, 1);
    REQUIRE(s.put(*s.proxy, "k", value));
    const auto outcome = run_beside_update(
        s, jobs::transition_object(s.proxy->ops(), {.key = "k", .to = 3}), milliseconds);
    CHECK(outcome.status == jobs::ObjectStatus::kDone);
    value.replace(9 * kSegment + 7, 7, "updated");
    CHECK(s.get(*s.proxy, "k") == value);
    const auto now = s.run(inspect_object(s.proxy->ops(), "k", s.deadline()));
    REQUIRE(now.has_value());
    for (const node::Segment& segment : now->record->content.segments) {
      CHECK(segment.state == coding::State::kWide);
    }
    s.check_clean();
  }
}
