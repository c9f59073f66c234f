// What every job does, with a flow of one object that does nothing to it.
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "proxy/ops/jobs/job.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kObjectBytes = 3000;

// Each object that is striped has to go; `flow_of` says what comes of it.
class TestJob final : public Job {
 public:
  TestJob(OpsContext& context, JobSpec spec) : Job(context, std::move(spec)) {}

  std::function<Result<ObjectOutcome>(JobObject&)> flow_of = [](JobObject& object) {
    object.spent.bytes_read += kObjectBytes;
    return ObjectOutcome{.object_bytes = kObjectBytes};
  };
  std::function<int(const std::string&)> order_of = [](const std::string&) { return 0; };
  std::function<void()> on_need = [] {};
  std::vector<std::string> flows;
  std::vector<std::string> over;

 private:
  Result<ObjectNeed> need_of(const MetObject& object) override {
    on_need();
    if (object.content.kind != node::RecordKind::kStriped) {
      return ObjectNeed{.status = ObjectStatus::kSkipped, .reason = "inline"};
    }
    return ObjectNeed{.kind = 7,
                      .order = order_of(object.key),
                      .work = {.objects = 1,
                               .object_bytes = object.content.size,
                               .traffic = {.bytes_read = kObjectBytes},
                               .parity = {}}};
  }
  Task<Result<ObjectOutcome>> flow(JobObject& object) override {
    CHECK(object.kind == 7);
    flows.push_back(object.key);
    (void)co_await ops().clock.sleep_for(10ms);
    co_return flow_of(object);
  }
  void ended(const JobObject& object, const Result<ObjectOutcome>&) override {
    over.push_back(object.key);
  }
};

struct Served {
  Served() : cluster(9, "ers-2:4,2,5") {
    proxy = &cluster.add_proxy();
    decider = &cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(*decider); }));
    proxy->map().serve(decider->map().current());
    for (const char* key : {"a/1", "a/2", "a/3", "b/1"}) {
      REQUIRE(cluster.put(*proxy, key, std::string(kObjectBytes, 'v')));
    }
    REQUIRE(cluster.put(*proxy, "a/small", "v"));
  }
  void start(TestJob& job) {
    ended = false;
    REQUIRE(jobs.try_spawn([](TestJob& running, bool& over) -> Task<void> {
      co_await running.run();
      over = true;
    }(job, ended)));
  }
  JobProgress run(TestJob& job) {
    start(job);
    REQUIRE(cluster.run_until([&] { return ended; }, 1h));
    return job.progress();
  }

  ClusterFixture cluster;
  sim::SimProxy* proxy = nullptr;
  sim::SimProxy* decider = nullptr;
  bool ended = false;
  Scope jobs;
};

}  // namespace

TEST_CASE("a job runs its flow for each object that has to go, and reports once", "[job]") {
  Served s;
  TestJob job(s.proxy->ops(), {.prefix = "a/", .parallel = 2});
  const JobProgress progress = s.run(job);
  CHECK(progress.state == JobState::kDone);
  CHECK(progress.counted);
  CHECK(progress.counts.seen == 4);
  CHECK(progress.counts.done == 3);
  CHECK(progress.counts.skipped.at("inline") == 1);
  CHECK(progress.planned.objects == 3);
  CHECK(progress.done.object_bytes == 3 * kObjectBytes);
  CHECK(progress.done.traffic.bytes() == 3 * kObjectBytes);
  CHECK(progress.settled_bytes == progress.planned.traffic.bytes());
  CHECK(progress.object_times.count() == 3);
  CHECK(progress.elapsed >= 20ms);
  CHECK(std::set<std::string>(job.over.begin(), job.over.end()) ==
        std::set<std::string>{"a/1", "a/2", "a/3"});
}

TEST_CASE("of what waits, the lowest order goes first", "[job]") {
  Served s;
  TestJob job(s.proxy->ops(), {.parallel = 1, .page_bytes = 1 << 20});
  job.order_of = [](const std::string& key) { return key == "a/3" ? -1 : key == "b/1" ? 0 : 1; };
  // All but the first, which goes at once, are met while it runs.
  REQUIRE(s.run(job).counts.done == 4);
  std::vector<std::string> rest(job.flows.begin() + 1, job.flows.end());
  CHECK(std::ranges::is_sorted(rest, {}, job.order_of));
}

TEST_CASE("a dry run of any job counts, and runs no flow", "[job]") {
  Served s;
  TestJob job(s.proxy->ops(), {.dry_run = true});
  const JobProgress progress = s.run(job);
  CHECK(progress.planned.objects == 4);
  CHECK(progress.counts.seen == 5);
  CHECK(job.flows.empty());
}

TEST_CASE("a job tells which objects it could not do, and why", "[job]") {
  Served s;
  TestJob job(s.proxy->ops(), {});
  job.flow_of = [](JobObject& object) -> Result<ObjectOutcome> {
    if (object.key == "a/1") return fail(ErrorCode::kTimeout, "no answer");
    if (object.key == "a/2") return ObjectOutcome{ObjectStatus::kRefused, "2 shards are missing"};
    if (object.key == "a/3") return ObjectOutcome{ObjectStatus::kOverwritten};
    return ObjectOutcome{ObjectStatus::kNoObject};
  };
  const JobProgress progress = s.run(job);
  CHECK(progress.state == JobState::kDone);
  CHECK(progress.counts.failed == 1);
  CHECK(progress.counts.refused == 1);
  CHECK(progress.counts.overwritten == 1);
  CHECK(progress.counts.no_object == 1);
  REQUIRE(progress.problems.size() == 2);
  for (const JobProblem& problem : progress.problems) {
    CHECK(problem.reason == (problem.key == "a/1" ? "timeout: no answer" : "2 shards are missing"));
  }
}

TEST_CASE("a cancelled job begins no further object", "[job]") {
  Served s;
  TestJob job(s.proxy->ops(), {.parallel = 1});
  s.start(job);
  REQUIRE(s.cluster.run_until([&] { return job.over.size() == 1; }));
  job.cancel();
  CHECK(job.progress().cancelling);
  REQUIRE(s.cluster.run_until([&] { return s.ended; }));
  CHECK(job.progress().state == JobState::kCancelled);
  CHECK(job.flows.size() == job.over.size());
  CHECK(job.flows.size() < 4);
}

TEST_CASE("a job that is cancelled in the middle of its walk waits for nothing", "[job]") {
  Served s;
  TestJob job(s.proxy->ops(), {});
  std::string reason;
  job.on_need = [&] { job.cancel(); };
  s.start(job);
  REQUIRE(s.cluster.run_until([&] {
    reason += job.progress().reason;
    return s.ended;
  }));
  CHECK(job.progress().state == JobState::kCancelled);
  CHECK(reason.empty());
}

TEST_CASE("an object that a full node has no room for is tried again, the others wait", "[job]") {
  Served s;
  TestJob job(s.proxy->ops(), {.key = "a/1"});
  int tries = 0;
  job.flow_of = [&](JobObject&) -> Result<ObjectOutcome> {
    if (++tries < 3) return fail(ErrorCode::kNoSpace, "node n1 is full");
    return ObjectOutcome{};
  };
  CHECK(s.run(job).counts.done == 1);
  CHECK(tries == 3);
  CHECK(job.over.size() == 1);
}
