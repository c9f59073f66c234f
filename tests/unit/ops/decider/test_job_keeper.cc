// Jobs of a cluster, as its proxies begin, cancel and take over them. What goes wrong at random
// moments is the simulator's (scenario "jobs"); here are the moments that it has found.
#include <catch2/catch.hpp>
#include <deque>

#include "proxy/ops/decider/job_keeper.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::decider;
using namespace std::chrono_literals;

namespace {

constexpr sim::JobOrder kLong{.steps = 100, .step_ms = 500};

// Proxies of which one decides, and the next one when that is gone.
struct Jobs : ClusterFixture {
  explicit Jobs(int count, Duration read_grace = 2s) {
    settings.read_grace = read_grace;
    for (int i = 0; i < count; ++i) {
      sim::SimProxy& proxy = add();
      REQUIRE(run_until([&] { return proxy.map().current() != nullptr; }));
    }
    run_for(3s);  // all have heard of each other
  }
  sim::SimProxy& add() {
    sim::SimProxy& proxy = add_proxy();
    proxy.run_jobs();
    proxy.follow_by(decider_settings, /*may_decide=*/true);
    proxy.correspond(decider_settings.heartbeat);
    proxies.push_back(&proxy);
    return proxy;
  }
  bool decides(size_t i) const {
    return proxies[i]->decider() != nullptr && !proxies[i]->decider_has_ended();
  }
  // Its answer comes in time.
  std::optional<DeciderAnswer>& ask(size_t at, DeciderTask task) {
    auto& answer = answers.emplace_back();
    proxies[at]->do_task(std::move(task),
                         [&answer](DeciderAnswer told) { answer = std::move(told); });
    return answer;
  }
  std::optional<DeciderAnswer>& begin(size_t at, uint64_t token, sim::JobOrder order) {
    return ask(at, StartJob{.token = token, .kind = "transition", .order = order.to_text()});
  }
  // The first proxy begins one and dies; the second decides.
  StartJob leave_rebalance() {
    REQUIRE(decides(0));
    StartJob order{.token = 7, .kind = "rebalance", .order = kLong.to_text()};
    REQUIRE(wait(ask(0, order)));
    run_for(2s);
    proxies[0]->kill();
    REQUIRE(run_until([&] { return decides(1); }));
    return order;
  }
  DeciderAnswer wait(std::optional<DeciderAnswer>& answer) {
    REQUIRE(run_until([&] { return answer.has_value(); }, 20s));
    return *answer;
  }
  std::optional<jobs::ClusterJob> shown(size_t at, uint64_t id) {
    return proxies[at]->jobs().find(id);
  }
  void cut_all(size_t at) {
    for (node::NodeId id = 0; id < 5; ++id) network().cut(proxies[at]->id(), id);
  }

  std::vector<sim::SimProxy*> proxies;
  std::deque<std::optional<DeciderAnswer>> answers;
};

}  // namespace

TEST_CASE("a job is begun once, goes on at whoever decides next, and ends once") {
  Jobs cluster(3);
  auto& answer = cluster.begin(1, 7, {.steps = 20, .step_ms = 200});
  auto begun = cluster.wait(answer);
  REQUIRE(begun);
  CHECK(begun->job->id == 1);
  CHECK(cluster.wait(cluster.begin(2, 7, kLong))->job->id == 1);  // the same
  CHECK(cluster.wait(cluster.begin(2, 8, kLong)).error().code == ErrorCode::kConflict);
  cluster.proxies[0]->kill();
  REQUIRE(cluster.run_until([&] { return cluster.shown(2, 1)->runs == 2; }));
  REQUIRE(cluster.run_until([&] { return !cluster.shown(1, 1)->is_running(); }));
  CHECK(cluster.shown(1, 1)->state == jobs::JobState::kDone);
  REQUIRE(cluster.run_until([&] { return cluster.shown(2, 1) == cluster.shown(1, 1); }));
}

// Rebalances wait for a grace before they go on.
TEST_CASE("a job that is left is answered as begun when this proxy goes on with it") {
  Jobs cluster(2);
  const StartJob order = cluster.leave_rebalance();
  const auto begun = cluster.wait(cluster.ask(1, order));
  REQUIRE(begun);
  CHECK(begun->job->runs == 2);
}

TEST_CASE("a rebalance that is left can be cancelled before anybody goes on with it") {
  Jobs cluster(2, /*read_grace=*/60s);
  cluster.leave_rebalance();
  const auto other = cluster.wait(cluster.ask(1, CancelJob{1, "transition"}));
  CHECK(other.error().code == ErrorCode::kNotFound);
  const auto cancelled = cluster.wait(cluster.ask(1, CancelJob{1, "rebalance"}));
  REQUIRE(cancelled);
  CHECK(cancelled->job->state == jobs::JobState::kCancelled);
  CHECK(cancelled->job->runs == 1);
}

TEST_CASE("a job that is cancelled has ended when its runner has come to that") {
  const size_t at = GENERATE(size_t{0}, size_t{1});
  Jobs cluster(2);
  REQUIRE(cluster.decides(0));
  REQUIRE(cluster.wait(cluster.begin(0, 7, kLong)));
  const auto cancelled = cluster.wait(cluster.ask(at, CancelJob{1, "transition"}));
  REQUIRE(cancelled);
  CHECK((cancelled->job->cancelling || !cancelled->job->is_running()));
  REQUIRE(cluster.run_until([&] { return !cluster.shown(0, 1)->is_running(); }, 5s));
  CHECK(cluster.shown(0, 1)->state == jobs::JobState::kCancelled);
  CHECK(cluster.proxies[0]->has_ended(*cluster.shown(0, 1)));
}

// What others have begun is at the nodes, which may tell it late.
TEST_CASE("who has just begun to decide hears of all jobs before it says that there is none") {
  Jobs cluster(1);
  REQUIRE(cluster.wait(cluster.begin(0, 7, kLong)));
  cluster.proxies[0]->kill();
  cluster.network().set_delay_rule([](int proxy, node::NodeId, const node::RequestHeader& header) {
    const bool is_late = proxy == 1 && header.opcode == node::Opcode::kNotices;
    return is_late ? std::optional<Duration>(60s) : std::nullopt;
  });
  const sim::SimProxy& next = cluster.add();
  REQUIRE(cluster.run_until([&] { return cluster.decides(1) && next.shown_map().current(); }));
  REQUIRE_FALSE(cluster.shown(1, 1));
  auto& answer = cluster.ask(1, CancelJob{1});
  cluster.network().set_delay_rule(nullptr);
  REQUIRE(cluster.wait(answer));
  REQUIRE(cluster.run_until([&] { return !cluster.shown(1, 1)->is_running(); }, 5s));
  CHECK(cluster.shown(1, 1)->state == jobs::JobState::kCancelled);
  CHECK(cluster.wait(cluster.ask(1, CancelJob{2})).error().code == ErrorCode::kNotFound);
}

TEST_CASE("a job that no runner takes is refused, and is none") {
  Jobs cluster(2);
  auto& answer =
      cluster.ask(1, StartJob{.token = 7, .kind = "transition", .order = sim::kSenselessOrder});
  CHECK(cluster.wait(answer).error().code == ErrorCode::kInvalid);
  CHECK(cluster.proxies[0]->jobs().all().empty());
}

TEST_CASE("what is cut off with one node does not answer that it has begun a job") {
  Jobs cluster(3);
  REQUIRE(cluster.decides(0));
  for (node::NodeId id = 1; id < 5; ++id) cluster.network().cut(0, id);
  for (const int other : {1, 2}) cluster.network().cut(other, 0);
  auto& answer = cluster.begin(0, 7, kLong);
  const uint32_t first = cluster.proxies[0]->map().current()->epoch.decider;
  REQUIRE(cluster.run_until([&] {
    const MapPtr map = cluster.proxies[1]->map().current();
    return map != nullptr && map->epoch.decider != first;
  }));
  auto& later = cluster.begin(1, 8, kLong);
  const auto begun = cluster.wait(later);
  REQUIRE(begun);
  // By whoever knows nothing of the first one.
  CHECK(begun->job->id == 1);
  CHECK(cluster.wait(answer).error().code == ErrorCode::kUnknownOutcome);
  cluster.network().mend_all();
  REQUIRE(cluster.run_until([&] { return cluster.shown(0, 1)->token == 8; }));
}

TEST_CASE("a decider tells whether a majority has had its map since") {
  Jobs cluster(1);
  const decider::Decider& decider = *cluster.proxies[0]->decider();
  const TimePoint whole = cluster.events().now();
  CHECK_FALSE(decider.has_majority_since(whole));
  cluster.run_for(500ms);
  CHECK(decider.has_majority_since(whole));
  for (node::NodeId id = 0; id < 3; ++id) cluster.network().cut(0, id);
  const TimePoint cut = cluster.events().now();
  cluster.run_for(5s);
  CHECK(decider.has_majority_since(whole));
  CHECK_FALSE(decider.has_majority_since(cut + 100ms));
}

TEST_CASE("a job is answered as begun when all nodes have it where proxies meet") {
  Jobs cluster(2);
  REQUIRE(cluster.decides(0));
  cluster.node(1).stall();
  const TimePoint asked = cluster.events().now();
  const auto begun = cluster.wait(cluster.begin(0, 7, kLong));
  REQUIRE(begun);
  CHECK_FALSE(cluster.proxies[0]->map().current()->is_up(1));  // it was waited for until then
  CHECK(cluster.events().now() - asked >= cluster.decider_settings.suspect_after / 2);
}

// Whoever decides next may not know of the end, and begin it again.
TEST_CASE("an end is answered only when it was told") {
  Jobs cluster(2);
  REQUIRE(cluster.decides(0));
  REQUIRE(cluster.wait(cluster.begin(0, 7, {.steps = 1, .step_ms = 5000})));
  cluster.run_for(2500ms);
  auto& answer = cluster.ask(0, CancelJob{1});
  const auto* const letters = cluster.proxies[0]->letters();
  // The runner ends it at the end of its step, which comes after everybody knows that it shall.
  REQUIRE(cluster.run_until([&] { return cluster.shown(0, 1)->cancelling; }));
  const jobs::ClusterJob cancelling = *cluster.shown(0, 1);
  REQUIRE(cluster.run_until([&] { return letters->told_at(cancelling).has_value(); }));
  cluster.cut_all(0);
  cluster.proxies[0]->pause();
  cluster.events().after(10s, [&] { cluster.proxies[0]->resume(); });
  REQUIRE(cluster.run_until([&] { return !cluster.shown(0, 1)->is_running(); }));
  CHECK(cluster.wait(answer).error().code == ErrorCode::kUnknownOutcome);
}

TEST_CASE("what was maybe done is not refused by whoever is asked again") {
  ClusterFixture cluster;
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  std::vector<Error> errors = {{ErrorCode::kUnknownOutcome, "no answer"},
                               {ErrorCode::kUnknownOutcome, "again none"},
                               {ErrorCode::kConflict, "repair 3 is running"}};
  size_t asked = 0;
  const auto perform = [&](DeciderTask, TimePoint) -> Task<DeciderAnswer> {
    co_return fail(errors[asked++]);
  };
  jobs::JobBook book;
  const auto decides = [] { return uint32_t{1}; };
  Correspondence letters(
      proxy.ops(), 9, cluster.decider_settings.heartbeat, book, [] { return ProxyCard(); }, decides,
      perform);
  JobKeeper keeper(proxy.ops(), book, letters,
                   {.decides_as = decides,
                    .has_majority_since = [](TimePoint) { return true; },
                    .ends = [] { return false; }});
  const StartJob order{.token = 7, .kind = "repair", .order = "{}"};
  auto answer = cluster.run(keeper.ask(order, cluster.deadline()));
  CHECK(answer.error().code == ErrorCode::kUnknownOutcome);
  CHECK(answer.error().message == "again none; when it was asked for again: repair 3 is running");
  CHECK(asked == 3);
  asked = 2;
  answer = cluster.run(keeper.ask(order, cluster.deadline()));
  CHECK(answer.error().code == ErrorCode::kConflict);  // it was asked for once
}
