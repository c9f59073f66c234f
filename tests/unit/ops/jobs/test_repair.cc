// Shards that are gone come back, whatever goes on beside it.
#include <array>
#include <span>

#include "proxy/ops/jobs/repair_job.h"
#include "tests/unit/ops/jobs/repairing_fixture.h"

using namespace elastripe;

namespace {

void flip_last_byte(node::ArenaStore& store, const node::ItemRef& item) {
  std::array<std::byte, 1> last;
  const size_t at = store.value_bytes(item) - 1;
  store.read(item, at, last);
  last[0] ^= std::byte{1};
  store.write(item, at, last);
}

}  // namespace

TEST_CASE("a shard of a dead node comes back on a spare one") {
  const size_t index = GENERATE(as<size_t>{}, 0, 3, 5);
  Repairing s;
  const auto before = s.inspect().record;
  s.kill(s.segment().placement[index]);
  const RepairOutcome outcome = s.repair();
  CHECK(outcome.status == ObjectStatus::kDone);
  CHECK(outcome.shards == 1);
  CHECK(outcome.bytes > 0);
  CHECK(s.inspect().record->meta.value_version == before->meta.value_version);
  CHECK(s.path() == ReadPath::kStriped);
  s.check_restored();
  CHECK(s.repair().status == ObjectStatus::kAlreadyThere);
  s.kill(s.segment().placement[1]);
  CHECK(s.path() == ReadPath::kDegraded);
  CHECK(s.repair().status == ObjectStatus::kDone);
  CHECK(s.path() == ReadPath::kStriped);
}

TEST_CASE("a shard comes back to its node, if that is back") {
  const size_t index = GENERATE(as<size_t>{}, 0, 5);
  Repairing s;
  const NodeId node = s.segment().placement[index];
  const auto name = s.name(index);
  s.kill(node);
  s.start(node);
  CHECK(s.repair().shards == 1);
  CHECK(s.segment().placement[index] == node);
  CHECK(s.name(index) != name);
  s.check_restored();
}

TEST_CASE("all that a segment lacks comes back in one pass over what is left") {
  Repairing s(9, "ers-2:4,2,5");
  s.kill(s.segment().placement[1]);
  s.kill(s.segment().placement[6]);
  Traffic spent;
  const auto outcome =
      s.cluster.run(repair_object(s.proxy->ops(), {.key = "key", .spent = &spent}));
  REQUIRE(outcome);
  CHECK(outcome->shards == 2);
  CHECK(spent.blocks_read == 20);  // k of each stripe
  CHECK(spent.bytes_sent == outcome->bytes);
  s.check_restored();
}

TEST_CASE("a large object is repaired a window of segments at a time") {
  Repairing s(9, "ers-2:4,1,5", 40'000);
  const size_t segments = s.inspect().segments.size();
  REQUIRE(segments == 10);
  const uint64_t version = s.inspect().record->meta.version;
  const NodeId dead = s.segment().placement[0];
  s.kill(dead);
  const RepairOutcome outcome = s.repair();
  CHECK(outcome.status == ObjectStatus::kDone);
  CHECK(outcome.shards > 4);
  CHECK(s.inspect().record->meta.version > version + 1);
  s.check_restored(segments);
}

TEST_CASE("two repairers of one object do not get in each other's way") {
  for (const int milliseconds : {0, 1, 2, 3, 5, 8}) {
    CAPTURE(milliseconds);
    Repairing s;
    s.kill(s.segment().placement[0]);
    sim::SimProxy& other = s.cluster.add_proxy();
    other.map().serve(s.decider->map().current());
    std::optional<Result<RepairOutcome>> first, second;
    Scope scope;
    const auto repair = [](OpsContext& ops, auto* result) -> Task<void> {
      *result = co_await repair_object(ops, {.key = "key"});
    };
    scope.spawn(repair(s.proxy->ops(), &first));
    s.cluster.run_for(std::chrono::milliseconds(milliseconds));
    scope.spawn(repair(other.ops(), &second));
    REQUIRE(s.cluster.run_until([&] { return first && second && scope.live() == 0; }));
    REQUIRE(first->has_value());
    REQUIRE(second->has_value());
    CHECK((*first)->shards + (*second)->shards >= 1);
    s.check_restored();
  }
}

TEST_CASE("a write during a repair stays, and so does its object") {
  for (const int milliseconds : {0, 1, 2, 3, 4}) {
    CAPTURE(milliseconds);
    Repairing s;
    s.kill(s.segment().placement[0]);
    std::optional<Result<RepairOutcome>> outcome;
    Scope scope;
    const auto repair = [](OpsContext& ops, auto* result) -> Task<void> {
      *result = co_await repair_object(ops, {.key = "key"});
    };
    scope.spawn(repair(s.proxy->ops(), &outcome));
    s.cluster.run_for(std::chrono::milliseconds(milliseconds));
    REQUIRE(s.cluster.put(*s.decider, "key", value_of(2500)));
    REQUIRE(s.cluster.run_until([&] { return outcome && scope.live() == 0; }));
    CHECK(outcome->has_value());
    CHECK(s.cluster.get(*s.proxy, "key") == value_of(2500));
    CHECK(s.cluster.run_until([&] { return s.cluster.shards() == kShards; }, 300s));
  }
}

TEST_CASE("what has no node yet is restored when there is one") {
  Repairing s(6);
  const NodeId dead = s.segment().placement[2];
  s.kill(dead);
  const RepairOutcome outcome = s.repair();
  CHECK(outcome.status == ObjectStatus::kRefused);
  CHECK(outcome.reason == "there is no node for what is gone");
  s.start(dead);
  CHECK(s.repair().status == ObjectStatus::kDone);
  s.check_restored();
}

TEST_CASE("what has a node is restored in all segments, whatever has none") {
  Repairing s(7, "ers-2:4,2,5", 40'000);
  const NodeId dead = s.segment().placement[0];
  const NodeId back = s.segment().placement[1];
  s.kill(dead);
  s.kill(back);
  s.start(back);
  const RepairOutcome outcome = s.repair();
  CHECK(outcome.status == ObjectStatus::kRefused);
  CHECK(outcome.shards == 10);
  for (const auto& segment : s.inspect().segments) CHECK(segment.missing.size() == 1);
  CHECK(s.repair().shards == 0);
  s.start(dead);
  CHECK(s.repair().status == ObjectStatus::kDone);
  s.check_restored(10);
}

TEST_CASE("a repair that meets a bad page tells so at once") {
  Repairing s;
  const auto placement = s.segment().placement;
  s.kill(placement[0]);
  node::ArenaStore& store = s.cluster.node(placement[1]).store();
  for (uint64_t cursor = 0;;) {
    cursor = store.walk(cursor, [&](const node::ItemRef& item) {
      if (store.key(item).front() == '\x02') flip_last_byte(store, item);
      return true;
    });
    if (cursor == 0) break;
  }
  const TimePoint begun = s.cluster.events().now();
  const RepairOutcome outcome = s.repair();
  CHECK(outcome.status == ObjectStatus::kRefused);
  CHECK(outcome.shards == 0);
  CHECK(s.cluster.events().now() - begun < 1s);
}

TEST_CASE("shards on a node that does not answer are left alone") {
  Repairing s;
  const auto placement = s.segment().placement;
  s.cluster.node(placement[0]).stall();
  REQUIRE(s.cluster.run_until(
      [&] { return state_of(*s.decider, placement[0]) == node::NodeState::kSuspect; }, 20s));
  REQUIRE(s.cluster.run_until([&] { return s.cluster.serves_whole(*s.decider); }));
  s.follow();
  CHECK(s.repair().status == ObjectStatus::kAlreadyThere);
  CHECK(s.segment().placement == placement);
}

TEST_CASE("a repair tells what it has nothing to do with") {
  Repairing s;
  CHECK(s.repair().status == ObjectStatus::kAlreadyThere);
  CHECK(s.repair("absent").status == ObjectStatus::kNoObject);
  REQUIRE(s.cluster.put(*s.proxy, "small", "inline"));
  CHECK(s.repair("small").status == ObjectStatus::kSkipped);
  s.kill(s.segment().placement[0]);
  s.kill(s.segment().placement[1]);
  const RepairOutcome lost = s.repair();
  CHECK(lost.status == ObjectStatus::kRefused);
  CHECK(lost.reason == "more shards are gone than the scheme survives");
}

TEST_CASE("shards get names of their own only where all nodes know such") {
  ClusterFixture cluster(9, "ers-2:4,1,5");
  cluster.decider_settings.capabilities = {};
  sim::SimProxy& decider = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(decider); }));
  const auto outcome = cluster.run(repair_object(decider.ops(), {.key = "key"}));
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().code == ErrorCode::kInvalid);
}

namespace {

// Many objects, small and large, and a job that repairs them.
struct RepairingMany : Repairing {
  RepairingMany() : Repairing(9, "ers-2:4,2,5") {
    for (size_t i = 0; i < kObjects; ++i) {
      REQUIRE(cluster.put(*proxy, "many" + std::to_string(i), value_of(1000 + 100 * i)));
    }
    REQUIRE(cluster.put(*proxy, "small", "inline"));
  }
  JobProgress run_job(JobSpec spec = {}, std::optional<NodeId> on = {}) {
    RepairJob job(proxy->ops(), {.job = std::move(spec), .on = on},
                  [this](const RepairOutcome& outcome) { restored += outcome.shards; });
    bool ended = false;
    Scope scope;
    scope.spawn([](RepairJob& running, bool& over) -> Task<void> {
      co_await running.run();
      over = true;
    }(job, ended));
    REQUIRE(cluster.run_until([&] { return ended && scope.live() == 0; }, 1h));
    return job.progress();
  }
  void check_all() {
    for (size_t i = 0; i < kObjects; ++i) {
      const std::string key = "many" + std::to_string(i);
      CHECK(cluster.get(*proxy, key) == value_of(1000 + 100 * i));
      const auto scrubbed = cluster.run(scrub_object(proxy->ops(), key, cluster.deadline()));
      REQUIRE(scrubbed.has_value());
      CHECK(scrubbed->is_clean());
    }
  }

  static constexpr size_t kObjects = 30;
  uint64_t restored = 0;
};

}  // namespace

TEST_CASE("a repair job restores all that lacks something, and nothing else", "[job]") {
  RepairingMany s;
  CHECK(s.run_job().counts.already_there == RepairingMany::kObjects + 1);
  s.kill(0);
  const JobProgress plan = s.run_job({.dry_run = true});
  CHECK(plan.planned.objects > 0);
  CHECK(s.restored == 0);

  const JobProgress progress = s.run_job();
  CHECK(progress.state == JobState::kDone);
  CHECK(progress.counts.done == plan.planned.objects);
  CHECK(progress.counts.done + progress.counts.already_there == RepairingMany::kObjects + 1);
  CHECK(progress.counts.skipped.at("inline") == 1);
  CHECK(progress.done.traffic.bytes() == plan.planned.traffic.bytes());
  CHECK(progress.problems.empty());
  CHECK(s.restored >= progress.counts.done);
  s.check_all();
  CHECK(s.run_job().counts.already_there == RepairingMany::kObjects + 1);
}

TEST_CASE("a repair of one node makes again what that one lacks, and nothing else", "[job]") {
  RepairingMany s;
  s.kill(0);
  s.kill(1);
  const JobWork all = s.run_job({.dry_run = true}).planned;
  const JobWork first = s.run_job({.dry_run = true}, 0).planned;
  const JobWork second = s.run_job({.dry_run = true}, 1).planned;
  CHECK(first.shards + second.shards == all.shards);
  REQUIRE(first.shards > 0);
  REQUIRE(second.objects < all.objects);

  const JobProgress progress = s.run_job({}, 0);
  CHECK(progress.state == JobState::kDone);
  CHECK(progress.counts.done == first.objects);
  CHECK(progress.done.shards == first.shards);
  CHECK(s.restored == first.shards);
  CHECK(s.run_job({.dry_run = true}, 0).planned.objects == 0);
  CHECK(s.run_job({.dry_run = true}).planned.shards == second.shards);
  CHECK(s.run_job().done.shards == second.shards);
  s.check_all();
}

TEST_CASE("a dry run tells the same of objects whose records fit in no page", "[job]") {
  RepairingMany s;
  s.kill(0);
  const JobWork plan = s.run_job({.dry_run = true}).planned;
  REQUIRE(plan.shards > 0);
  const JobProgress named = s.run_job({.dry_run = true, .page_bytes = 1});
  CHECK(named.planned.objects == plan.objects);
  CHECK(named.planned.shards == plan.shards);
  CHECK(named.planned.traffic.bytes() == plan.traffic.bytes());
}

TEST_CASE("a repair job takes nothing for whole that a node did not tell of", "[job]") {
  RepairingMany s;
  s.cluster.network().set_delay_rule([](int, node::NodeId to, const node::RequestHeader& header) {
    const bool is_late = to == 0 && header.opcode == node::Opcode::kShardConfirm;
    return is_late ? std::optional<Duration>(20s) : std::nullopt;
  });
  const JobProgress progress = s.run_job();
  CHECK(progress.state == JobState::kFailed);
  CHECK(progress.reason.find("not all nodes told") != std::string::npos);
}

TEST_CASE("after each repair any m nodes may die again", "[job]") {
  RepairingMany s;
  for (const auto& [first, second] : {std::pair<NodeId, NodeId>{0, 1}, {2, 3}, {4, 5}}) {
    s.kill(first);
    s.kill(second);
    s.start(first);
    s.start(second);
    const JobProgress progress = s.run_job();
    CHECK(progress.counts.refused == 0);
    CHECK(progress.counts.failed == 0);
    s.check_all();
  }
}

TEST_CASE("what survives the fewest failures is repaired first", "[job]") {
  RepairingMany s;
  s.kill(0);
  s.kill(1);
  std::vector<uint64_t> restored;
  RepairJob job(s.proxy->ops(), {.job = {.parallel = 1, .page_bytes = 1 << 20}},
                [&](const RepairOutcome& outcome) { restored.push_back(outcome.shards); });
  Scope scope;
  scope.spawn(job.run());
  REQUIRE(s.cluster.run_until([&] { return scope.live() == 0; }, 1h));
  const auto worst = std::ranges::count(restored, 2u);
  CHECK(worst > 0);
  CHECK(std::ranges::count(restored, 1u) > 0);
  // Tails are walked side by side: the first ones go before all are met.
  const size_t first = std::max(restored.size() / 2, static_cast<size_t>(worst));
  CHECK(4 * std::ranges::count(std::span(restored).first(first), 2u) >= 3 * worst);
}
