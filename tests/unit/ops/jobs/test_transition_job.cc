// Jobs that take many objects to another k, over real flows and nodes.
#include <catch2/catch.hpp>

#include "proxy/ops/jobs/transition_job.h"
#include "server-patches/node/engine/item_formats.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

namespace {

std::string value_of(size_t size, char first = 'a') {
  std::string value(size, first);
  for (size_t i = 1; i < size; ++i) value[i] = static_cast<char>(i * 31 + i / 253);
  return value;
}

struct Serving {
  explicit Serving(const std::string& scheme = "ers-2:4,2,5", size_t nodes = 9,
                   sim::NodeMemory memory = {})
      : cluster(nodes, scheme, 1, memory) {
    cluster.settings.upload_idle = 30s;
    proxy = &cluster.add_proxy();
    decider = &cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(*decider); }));
    follow();
  }
  void follow() { proxy->map().serve(decider->map().current()); }
  // As in a proxy: every map that the decider serves is that of the flows, too.
  void keep_following() {
    if (proxy->map().current() != decider->map().current()) follow();
    cluster.events().after(50ms, [this] { keep_following(); });
  }

  void put(const std::string& key, size_t size) {
    values[key] = value_of(size, key.back());
    REQUIRE(cluster.put(*proxy, key, values[key]));
  }
  // Four striped objects of the default pool under a/ and two under b/; two inline, one of rs.
  void fill() {
    for (const char* key : {"a/1", "a/2", "a/3", "a/4"}) put(key, 3000);
    put("b/1", 10'001);
    put("b/2", 100);
    put("a/small", 10);
    put("b/small", 20);
    put("weak:1", 1000);
  }
  // The objects that are whole in the state for k' or k.
  std::set<std::string> wide() {
    std::set<std::string> keys;
    for (const auto& [key, _] : values) {
      const auto report = cluster.run(inspect_object(proxy->ops(), key, cluster.deadline()));
      REQUIRE(report.has_value());
      const auto& segments = report->record->content.segments;
      const auto is_wide = [](const auto& s) { return s.state == coding::State::kWide; };
      if (!segments.empty() && std::ranges::all_of(segments, is_wide)) keys.insert(key);
    }
    return keys;
  }
  void check_values() {
    for (const auto& [key, value] : values) {
      INFO(key);
      CHECK(cluster.get(*proxy, key) == value);
    }
  }

  JobProgress run(TransitionJobSpec spec) {
    TransitionJob job(proxy->ops(), std::move(spec),
                      [this](const TransitionEnd& end) { ends.push_back(end); });
    start(job);
    REQUIRE(cluster.run_until([&] { return ended; }, 1h));
    return job.progress();
  }
  void start(TransitionJob& job) {
    ended = false;
    REQUIRE(jobs.try_spawn([](TransitionJob& running, bool& over) -> Task<void> {
      co_await running.run();
      over = true;
    }(job, ended)));
  }

  ClusterFixture cluster;
  sim::SimProxy* proxy = nullptr;
  sim::SimProxy* decider = nullptr;
  std::map<std::string, std::string> values;
  std::vector<TransitionEnd> ends;
  bool ended = false;
  Scope jobs;
};

const std::set<std::string> kStriped = {"a/1", "a/2", "a/3", "a/4", "b/1", "b/2"};

uint64_t sum(const JobCounts& counts) {
  uint64_t total = counts.done + counts.already_there + counts.no_object + counts.overwritten +
                   counts.refused + counts.failed;
  for (const auto& [_, count] : counts.skipped) total += count;
  return total;
}

}  // namespace

TEST_CASE("a job takes all objects there, tells what it passed over, and back") {
  const Execution execution = GENERATE(Execution::kDelta, Execution::kProxy);
  const uint32_t parallel = GENERATE(1u, 4u);
  Serving s;
  s.fill();
  const auto there = s.run({.job = {.parallel = parallel}, .to = 5, .execution = execution});
  CHECK(there.state == JobState::kDone);
  CHECK(there.counts.seen == 9);
  CHECK(sum(there.counts) == 9);
  CHECK(there.counts.done == 6);
  CHECK(there.counts.skipped == std::map<std::string, uint64_t>{{"inline", 2}, {"rs", 1}});
  CHECK(there.partitions_done == ClusterFixture::kPartitions);
  CHECK(there.done.objects == 6);
  CHECK(there.done.object_bytes == 4 * 3000 + 10'001 + 100);
  CHECK(there.problems.empty());
  CHECK(s.wide() == kStriped);
  s.check_values();
  CHECK(s.ends.size() == 6);
  uint64_t bytes = 0;
  for (const auto& end : s.ends) {
    CHECK(std::string(end.result) == "transitioned");
    CHECK(end.direction == coding::Direction::kForward);
    bytes += end.traffic.bytes();
  }
  CHECK(bytes == there.done.traffic.bytes());

  const auto again = s.run({.job = {.parallel = parallel}, .to = 5, .execution = execution});
  CHECK(again.counts.already_there == 6);
  CHECK(again.counts.done == 0);
  CHECK(again.done.traffic.bytes() == 0);

  const auto back = s.run({.job = {.parallel = parallel}, .to = 4, .execution = execution});
  CHECK(back.counts.done == 6);
  CHECK(back.done.parity.before == there.done.parity.after);
  CHECK(back.done.parity.after == there.done.parity.before);
  CHECK(s.wide().empty());
  s.check_values();
}

TEST_CASE("a job takes the objects of a prefix, or one") {
  Serving s;
  s.fill();
  const auto part = s.run({.job = {.prefix = "b/"}, .to = 5});
  CHECK(part.counts.seen == 3);
  CHECK(part.counts.done == 2);
  CHECK(s.wide() == std::set<std::string>{"b/1", "b/2"});

  const auto one = s.run({.job = {.key = "a/2"}, .to = 5});
  CHECK(one.counts.seen == 1);
  CHECK(one.counts.done == 1);
  CHECK(one.planned.traffic.bytes() == one.done.traffic.bytes());
  CHECK(s.wide() == std::set<std::string>{"a/2", "b/1", "b/2"});
  CHECK(s.run({.job = {.key = "a/small"}, .to = 5}).counts.skipped.at("inline") == 1);
  CHECK(s.run({.job = {.key = "none"}, .to = 5}).counts.no_object == 1);

  const auto rest = s.run({.to = 5});
  CHECK(rest.counts.done == 3);
  CHECK(rest.counts.already_there == 3);
  CHECK(s.run({.to = 6}).counts.skipped.at("other scheme") == 6);
}

TEST_CASE("a dry run tells what then happens, and touches nothing") {
  const Execution execution = GENERATE(Execution::kDelta, Execution::kProxy);
  Serving s;
  s.fill();
  s.run({.job = {.key = "a/3"}, .to = 5});
  s.cluster.run_for(30s);
  const uint64_t shards = s.cluster.shards();
  const auto dry = s.run({.job = {.dry_run = true}, .to = 5, .execution = execution});
  CHECK(dry.state == JobState::kDone);
  CHECK(dry.counts.already_there == 1);
  CHECK(dry.counts.done == 0);
  CHECK(dry.done.traffic.bytes() == 0);
  CHECK(s.cluster.shards() == shards);
  CHECK(s.wide() == std::set<std::string>{"a/3"});

  const auto real = s.run({.to = 5, .execution = execution});
  CHECK(dry.counts.seen == real.counts.seen);
  CHECK(dry.counts.skipped == real.counts.skipped);
  CHECK(dry.counts.already_there == real.counts.already_there);
  for (const JobWork& planned : {dry.planned, real.planned}) {
    CHECK(planned.objects == 5);
    CHECK(planned.objects == real.done.objects);
    CHECK(planned.object_bytes == real.done.object_bytes);
    CHECK(planned.traffic.bytes_read == real.done.traffic.bytes_read);
    CHECK(planned.traffic.bytes_sent == real.done.traffic.bytes_sent);
    CHECK(planned.parity.before == real.done.parity.before);
    CHECK(planned.parity.after == real.done.parity.after);
  }
  CHECK(real.settled_bytes == real.planned.traffic.bytes());
}

TEST_CASE("what was deleted or has expired is no object") {
  Serving s;
  s.fill();
  const auto soon = static_cast<uint32_t>(s.proxy->clock().unix_ms() / 1000 + 2);
  REQUIRE(s.cluster.put(*s.proxy, "expired", value_of(200), soon));
  REQUIRE(s.cluster.put(*s.proxy, "deleted", value_of(200)));
  REQUIRE(s.cluster.run(remove_object(s.proxy->ops(), "deleted", s.cluster.deadline())));
  s.cluster.run_for(3s);
  const auto progress = s.run({.to = 5});
  CHECK(progress.counts.seen == 9);
  CHECK(progress.counts.done == 6);
}

TEST_CASE("a job is no faster than its rate") {
  Serving s;
  for (int i = 0; i < 20; ++i) s.put("key" + std::to_string(i), 3000);
  const auto whole = s.run({.job = {.dry_run = true}, .to = 5}).planned.traffic.bytes();
  const auto progress = s.run({.job = {.rate = whole / 40, .parallel = 8}, .to = 5});
  CHECK(progress.counts.done == 20);
  CHECK(progress.elapsed >= 37s);  // the last of 20 begins after 19/20 of 40 s
  CHECK(progress.elapsed <= 45s);
}

TEST_CASE("a job tells how long its objects took, without the time that they waited") {
  Serving s;
  for (int i = 0; i < 20; ++i) s.put("key" + std::to_string(i), 3000);
  const auto whole = s.run({.job = {.dry_run = true}, .to = 5}).planned.traffic.bytes();
  const auto dry = s.run({.job = {.dry_run = true}, .to = 5}).object_times;
  CHECK(dry.count() == 0);
  CHECK(dry.most() == Duration::zero());
  const auto times = s.run({.job = {.rate = whole / 40}, .to = 5}).object_times;
  CHECK(times.count() == 20);
  CHECK(times.quantile(0) > Duration::zero());
  CHECK(times.quantile(0.5) <= times.quantile(0.99));
  CHECK(times.quantile(1) == times.most());
  CHECK(times.mean() <= times.most());
  CHECK(times.most() < 2s);  // a turn comes every two
  const auto none = s.run({.to = 5}).object_times;
  CHECK(none.count() == 0);
}

TEST_CASE("a cancelled job ends what is running and begins nothing more") {
  Serving s;
  for (int i = 0; i < 20; ++i) s.put("key" + std::to_string(i), 3000);
  const auto whole = s.run({.job = {.dry_run = true}, .to = 5}).planned.traffic.bytes();
  TransitionJob job(s.proxy->ops(), {.job = {.rate = whole / 100, .parallel = 2}, .to = 5});
  s.start(job);
  REQUIRE(s.cluster.run_until([&] { return job.progress().counts.done >= 3; }));
  job.cancel();
  CHECK(job.progress().cancelling);
  REQUIRE(s.cluster.run_until([&] { return s.ended; }, 5s));
  const auto progress = job.progress();
  CHECK(progress.state == JobState::kCancelled);
  CHECK(progress.counts.done >= 3);
  CHECK(progress.counts.done < 20);
  CHECK(progress.counts.seen == progress.counts.done);
  CHECK(s.wide().size() == progress.counts.done);
  // Running it again continues.
  const auto rest = s.run({.to = 5});
  CHECK(rest.counts.already_there == progress.counts.done);
  CHECK(rest.counts.done == 20 - progress.counts.done);
  s.check_values();
}

TEST_CASE("a node that dies during a job makes it refuse what it lost, and walk the rest again") {
  Serving s("ers-2:4,2,5", 10);
  s.keep_following();
  for (int i = 0; i < 40; ++i) s.put("key" + std::to_string(i), 3000);
  const auto whole = s.run({.job = {.dry_run = true}, .to = 5}).planned.traffic.bytes();
  TransitionJob job(s.proxy->ops(), {.job = {.rate = whole / 40, .parallel = 4}, .to = 5});
  s.start(job);
  REQUIRE(s.cluster.run_until([&] { return job.progress().counts.done >= 5; }));
  s.cluster.node(3).kill(false);
  REQUIRE(s.cluster.run_until([&] { return s.ended; }, 10min));
  const auto progress = job.progress();
  INFO(progress.reason);
  CHECK(progress.state == JobState::kDone);
  CHECK(progress.counts.seen == 40);
  CHECK(sum(progress.counts) == 40);
  CHECK(progress.counts.refused > 0);
  CHECK(progress.counts.failed == 0);
  CHECK(progress.counts.done + progress.counts.refused == 40);
  CHECK(progress.problems.size() == std::min<size_t>(progress.counts.refused, 20));
  for (const auto& problem : progress.problems) {
    CHECK(problem.reason.ends_with("is missing (on node-3)"));
  }
  CHECK(s.wide().size() == progress.counts.done);
  s.check_values();
}

TEST_CASE("a job begins with the first objects that it meets, and counts the others meanwhile") {
  Serving s;
  s.fill();
  const NodeId slow = s.cluster.homes_of(*s.proxy, "b/1").front();
  std::set<std::string> elsewhere = kStriped;
  std::erase_if(elsewhere, [&](const std::string& key) {
    return s.cluster.homes_of(*s.proxy, key).front() == slow;
  });
  REQUIRE_FALSE(elsewhere.empty());
  bool holds = true;
  s.cluster.network().set_delay_rule(
      [&](int proxy, NodeId to, const node::RequestHeader& header) -> std::optional<Duration> {
        const bool scans = proxy == s.proxy->id() && header.opcode == node::Opcode::kRecordScan;
        return holds && scans && to == slow ? std::optional<Duration>(1h) : std::nullopt;
      });
  TransitionJob job(s.proxy->ops(), {.to = 5});
  s.start(job);
  REQUIRE(s.cluster.run_until([&] { return job.progress().counts.done == elsewhere.size(); }, 30s));
  CHECK_FALSE(job.progress().counted);
  CHECK(job.progress().planned.objects == elsewhere.size());
  CHECK(s.wide() == elsewhere);
  holds = false;
  REQUIRE(s.cluster.run_until([&] { return s.ended; }));
  const auto progress = job.progress();
  CHECK(progress.counted);
  CHECK(progress.planned.objects == 6);
  CHECK(progress.counts.done == 6);
  CHECK(progress.counts.seen == 9);
  CHECK(s.wide() == kStriped);
}

TEST_CASE("an object that a job has met is read no second time, unless it has changed since") {
  const bool touched = GENERATE(false, true);
  Serving s;
  s.put("key", 3000);
  size_t reads = 0;
  bool scanned = false;
  s.cluster.network().set_delay_rule(
      [&](int proxy, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (proxy != s.proxy->id()) return std::nullopt;
        reads += header.opcode == node::Opcode::kRecordRead;
        const bool reads_data = header.opcode == node::Opcode::kShardRead;
        if (!reads_data || !touched || std::exchange(scanned, true)) return std::nullopt;
        return 500ms;
      });
  TransitionJob job(s.proxy->ops(), {.to = 5});
  s.start(job);
  if (touched) {
    REQUIRE(s.cluster.run_until([&] { return scanned; }));
    const auto later = static_cast<uint32_t>(s.decider->clock().unix_ms() / 1000 + 1000);
    REQUIRE(s.cluster.run(touch_object(s.decider->ops(), "key", later, s.cluster.deadline())));
  }
  REQUIRE(s.cluster.run_until([&] { return s.ended; }));
  CHECK(job.progress().counts.done == 1);
  CHECK(reads == 0);  // the commit that was refused told the newest
  s.check_values();
}

TEST_CASE("a job for one object that the proxy knows asks for its record only if it is old") {
  Serving s;
  s.put("key", 3000);
  REQUIRE(s.run({.job = {.key = "key"}, .to = 5}).counts.done == 1);
  int reads = 0;
  s.cluster.network().set_delay_rule(
      [&](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        reads += header.opcode == node::Opcode::kRecordRead;
        return std::nullopt;
      });
  SECTION("it is as it was") {
    CHECK(s.run({.job = {.key = "key"}, .to = 4}).counts.done == 1);
    CHECK(reads == 0);
  }
  SECTION("there is nothing to do") {
    CHECK(s.run({.job = {.key = "key"}, .to = 5}).counts.already_there == 1);
    CHECK(reads == 1);
  }
  SECTION("another proxy has deleted it") {
    sim::SimProxy& other = s.cluster.add_proxy();
    other.map().serve(s.decider->map().current());
    REQUIRE(s.cluster.run(remove_object(other.ops(), "key", s.cluster.deadline())));
    CHECK(s.run({.job = {.key = "key"}, .to = 4}).counts.no_object == 1);
    CHECK(reads > 0);
  }
  SECTION("another proxy has written it anew") {
    sim::SimProxy& other = s.cluster.add_proxy();
    other.map().serve(s.decider->map().current());
    REQUIRE(s.cluster.put(other, "key", value_of(2000)));
    REQUIRE(s.cluster.run(transition_object(other.ops(), {.key = "key", .to = 5})).has_value());
    CHECK(s.run({.job = {.key = "key"}, .to = 4}).counts.done == 1);
    CHECK(s.cluster.get(*s.proxy, "key") == value_of(2000));
  }
  SECTION("another proxy has taken it there") {
    sim::SimProxy& other = s.cluster.add_proxy();
    other.map().serve(s.decider->map().current());
    REQUIRE(s.cluster.run(transition_object(other.ops(), {.key = "key", .to = 4})).has_value());
    CHECK(s.run({.job = {.key = "key"}, .to = 4}).counts.already_there == 1);
  }
}

TEST_CASE("a job walks partitions that are not synced again until they are") {
  Serving s;
  s.keep_following();
  s.fill();
  bool holds = true;
  s.cluster.network().set_delay_rule(
      [&](int proxy, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        const bool syncs = proxy == s.decider->id() && header.opcode == node::Opcode::kRecordScan;
        if (holds && syncs) return Duration(1h);
        return std::nullopt;
      });
  s.cluster.node(2).kill(false);
  s.cluster.run_for(10s);
  TransitionJob job(s.proxy->ops(), {.to = 5});
  s.start(job);
  const auto waits = [&] { return job.progress().reason.find("not synced") != std::string::npos; };
  REQUIRE(s.cluster.run_until(waits));
  s.cluster.run_for(20s);
  CHECK(job.progress().state == JobState::kRunning);
  CHECK_FALSE(job.progress().counted);
  CHECK(job.progress().partitions_done < ClusterFixture::kPartitions);
  holds = false;
  REQUIRE(s.cluster.run_until([&] { return s.ended; }, 2min));
  const auto progress = job.progress();
  CHECK(progress.state == JobState::kDone);
  CHECK(progress.counts.seen == 9);
  CHECK(progress.counts.done + progress.counts.refused == 6);
  CHECK(progress.planned.objects == 6);
}

TEST_CASE("a job under a map that is over fails when nothing gets on any more") {
  Serving s;
  s.fill();
  s.cluster.node(2).kill(false);
  s.cluster.run_for(20s);  // and the flows still have the map before
  const auto progress = s.run({.to = 5});
  CHECK(progress.state == JobState::kFailed);
  CHECK(progress.reason.find("nothing got on for 60 s") != std::string::npos);
  s.follow();
  CHECK(s.wide().empty());
  const auto later = s.run({.to = 5});
  CHECK(later.state == JobState::kDone);
  CHECK(later.counts.seen == 9);
  CHECK(later.counts.done + later.counts.refused == 6);
}

TEST_CASE("a write during the job is neither lost nor counted twice") {
  Serving s;
  s.put("key", 4000);
  bool begun = false;
  s.cluster.network().set_delay_rule(
      [&](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode != node::Opcode::kShardBuild) return std::nullopt;
        begun = true;
        return 500ms;
      });
  TransitionJob job(s.proxy->ops(), {.to = 5});
  s.start(job);
  REQUIRE(s.cluster.run_until([&] { return begun; }));
  s.put("key", 5000);
  REQUIRE(s.cluster.run_until([&] { return s.ended; }));
  CHECK(job.progress().counts.overwritten == 1);
  CHECK(job.progress().counts.seen == 1);
  s.check_values();
}

TEST_CASE("records that a scan names only are read one by one") {
  Serving s;
  s.put("key1", 3000);
  s.put("key2", 3000);
  // A scan tells only the key of a damaged copy; the read mends it.
  const NodeId tail = s.cluster.homes_of(*s.proxy, "key1").front();
  uint64_t seed = 0;
  while (s.cluster.node(tail).store().corrupt(seed) != "key1") ++seed;
  size_t reads = 0;
  s.cluster.network().set_delay_rule(
      [&](int proxy, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        reads += proxy == s.proxy->id() && header.opcode == node::Opcode::kRecordRead;
        return std::nullopt;
      });
  const auto dry = s.run({.job = {.dry_run = true, .page_bytes = 1}, .to = 5});
  CHECK(reads > 0);
  CHECK(dry.counts.seen == 2);
  CHECK(dry.planned.objects == 2);
  const auto progress = s.run({.job = {.page_bytes = 1}, .to = 5});
  CHECK(progress.counts.done == 2);
  CHECK(s.wide().size() == 2);
  s.check_values();
}

TEST_CASE("a job waits while its proxy does not serve, and goes on when it does again") {
  Serving s;
  for (int i = 0; i < 20; ++i) s.put("key" + std::to_string(i), 3000);
  const auto whole = s.run({.job = {.dry_run = true}, .to = 5}).planned.traffic.bytes();
  TransitionJob job(s.proxy->ops(), {.job = {.rate = whole / 100, .parallel = 2}, .to = 5});
  s.start(job);
  REQUIRE(s.cluster.run_until([&] { return job.progress().counts.done >= 3; }));
  s.proxy->map().stop_serving("between two maps");
  s.cluster.run_for(30s);
  CHECK(job.progress().state == JobState::kRunning);
  CHECK(job.progress().reason.find("between two maps") != std::string::npos);
  CHECK(job.progress().counts.seen == 3);
  const bool serves_again = GENERATE(true, false);
  if (serves_again) s.follow();
  REQUIRE(s.cluster.run_until([&] { return s.ended; }, 10min));
  const auto progress = job.progress();
  CHECK(progress.counts.failed == 0);
  if (serves_again) {
    CHECK(progress.state == JobState::kDone);
    CHECK(progress.counts.done == 20);
  } else {
    CHECK(progress.state == JobState::kFailed);
    CHECK(progress.reason.find("between two maps") != std::string::npos);
    CHECK(progress.counts.done == 3);
    s.follow();
  }
  CHECK(s.wide().size() == progress.counts.done);
  s.check_values();
}

TEST_CASE("what an object put on the network before it failed is counted") {
  Serving s;
  s.put("key", 3000);
  s.cluster.network().set_delay_rule(
      [](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode == node::Opcode::kShardBuild) return Duration(1h);
        return std::nullopt;
      });
  const auto progress = s.run({.to = 5});
  CHECK(progress.counts.failed == 1);
  CHECK(progress.done.objects == 0);
  CHECK(progress.done.traffic.bytes() >= progress.planned.traffic.bytes());
  REQUIRE(s.ends.size() == 1);
  CHECK(std::string(s.ends[0].result) == "failed");
  CHECK(s.ends[0].traffic.bytes() == progress.done.traffic.bytes());
  s.check_values();
}

TEST_CASE("on nodes that are nearly full a job waits for the room that old parities leave") {
  Serving s("ers-2:4,2,5", 9, {.limit_bytes = 160 << 10, .reserve_bytes = 40 << 10});
  s.keep_following();
  std::vector<std::string> keys;
  for (;;) {
    const std::string key = "a/" + std::to_string(keys.size());
    const std::string value = value_of(4000, key.back());
    if (!s.cluster.put(*s.proxy, key, value)) break;
    s.values[key] = value;
    keys.push_back(key);
  }
  REQUIRE(keys.size() > 50);
  const auto remove = [&](const std::string& key) {
    s.values.erase(key);
    return s.cluster.run(remove_object(s.proxy->ops(), key, s.cluster.deadline())).value();
  };
  // All nodes are about as full as each other: these give each some room.
  for (int i = 0; i < 20; ++i) {
    REQUIRE(remove(keys.back()));
    keys.pop_back();
  }
  s.cluster.run_for(1min);

  const auto there = s.run({.to = 5});
  CHECK(there.state == JobState::kDone);
  CHECK(there.counts.done == keys.size());
  CHECK(there.counts.failed == 0);
  CHECK(there.elapsed > s.cluster.settings.read_grace);
  CHECK(s.wide().size() == keys.size());
  s.check_values();
}

TEST_CASE("where no room comes, objects fail one after another, not each after a wait") {
  Serving s("ers-2:4,2,5", 9, {.limit_bytes = 160 << 10, .reserve_bytes = 40 << 10});
  s.keep_following();
  size_t stored = 0;
  while (s.cluster.put(*s.proxy, "a/" + std::to_string(stored), value_of(4000))) ++stored;
  while (s.cluster.put(*s.proxy, "weak:" + std::to_string(stored), value_of(200))) ++stored;
  s.cluster.run_for(1min);
  const auto there = s.run({.job = {.prefix = "a/"}, .to = 5});
  CHECK(there.counts.failed > 20);
  CHECK(there.counts.failed + there.counts.done == there.counts.seen);
  CHECK(there.elapsed < 20 * s.cluster.settings.read_grace);
  REQUIRE_FALSE(there.problems.empty());
  CHECK(there.problems.front().reason.find("full") != std::string::npos);
}
