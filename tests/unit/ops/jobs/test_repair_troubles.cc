// Repairs that do not go as they should: full nodes, further deaths, lost answers, fences, slow
// nodes. The object stays whole, nothing that its record may name goes, and nothing else stays.
#include <functional>
#include <map>

#include "proxy/ops/records/read_tail.h"
#include "tests/unit/ops/jobs/repairing_fixture.h"

using namespace elastripe;

namespace {

NodeId head_of(Repairing& s) { return s.cluster.homes_of(*s.proxy, "key").back(); }

// Frames of the kind from the repairing proxy come late, those that `counts`.
void delay(
    Repairing& s, node::Opcode opcode, Duration time,
    std::function<bool(NodeId)> counts = [](NodeId) { return true; }) {
  s.cluster.network().set_delay_rule(
      [opcode, time, counts, from = s.proxy->id()](
          int proxy, NodeId to, const node::RequestHeader& header) -> std::optional<Duration> {
        if (proxy != from || header.opcode != opcode || !counts(to)) return std::nullopt;
        return time;
      });
}
void no_delays(Repairing& s) { s.cluster.network().set_delay_rule({}); }

void run_to_end(Repairing& s, Repairing::Running& running) {
  REQUIRE(s.cluster.run_until([&] { return running.is_over(); }, 5min));
}

}  // namespace

TEST_CASE("what no node has room for is left as it is, and restored when there is some") {
  Repairing s;
  s.kill(s.segment().placement[0]);
  const node::Segment before = s.segment();
  const uint64_t shards = s.cluster.shards();
  std::map<NodeId, int> fillers;
  for (NodeId id = 0; id < 9; ++id) {
    const bool has_shard = std::ranges::count(before.placement, id) > 0;
    if (!has_shard && s.proxy->map().current()->is_up(id)) fillers[id] = s.fill(id);
  }
  REQUIRE(fillers.size() == 3);
  for (const bool is_known : {false, true}) {  // that they are full
    CAPTURE(is_known);
    const auto outcome = s.try_repair();
    REQUIRE_FALSE(outcome.has_value());
    CHECK(outcome.error().code == ErrorCode::kNoSpace);
    CHECK(s.segment() == before);
    CHECK(s.path() == ReadPath::kDegraded);
    s.cluster.run_for(10s);
    CHECK(s.cluster.shards() == shards);
  }
  s.make_room(fillers.begin()->first, fillers.begin()->second);
  s.cluster.run_for(10s);
  CHECK(s.repair().status == ObjectStatus::kDone);
  CHECK(s.segment().placement[0] == fillers.begin()->first);
  s.check_restored();
}

TEST_CASE("a node that dies during a repair is made up for by the same repair, or the next") {
  for (const int milliseconds : {0, 1, 2, 3, 5, 8, 12, 20}) {
    for (const bool has_shard : {true, false}) {
      CAPTURE(milliseconds, has_shard);
      Repairing s(11, "ers-2:4,2,5", 40'000);
      const size_t segments = s.inspect().segments.size();
      s.kill(s.segment().placement[0]);
      const NodeId second = has_shard ? s.segment().placement[3] : s.spare();
      Repairing::Running running;
      s.begin(running);
      s.cluster.run_for(std::chrono::milliseconds(milliseconds));
      s.kill(second);
      run_to_end(s, running);
      REQUIRE(running.outcome->has_value());
      CHECK(s.cluster.get(*s.proxy, "key") == s.value);
      const ObjectStatus next = s.repair().status;
      CHECK((next == ObjectStatus::kDone || next == ObjectStatus::kAlreadyThere));
      s.check_restored(segments);
    }
  }
}

TEST_CASE(
    "more that die during a repair than the scheme survives end it, and no bytes are made up") {
  for (const int milliseconds : {0, 1, 2, 3}) {
    CAPTURE(milliseconds);
    Repairing s;
    s.kill(s.segment().placement[0]);
    const NodeId second = s.segment().placement[1];
    Repairing::Running running;
    s.begin(running);
    s.cluster.run_for(std::chrono::milliseconds(milliseconds));
    s.kill(second);
    run_to_end(s, running);
    REQUIRE(running.outcome->has_value());
    const ObjectStatus status = (*running.outcome)->status;
    if (status == ObjectStatus::kRefused) {
      CHECK((*running.outcome)->reason == "more shards are gone than the scheme survives");
      CHECK(s.cluster.get(*s.proxy, "key") != s.value);
    } else {  // the first was restored in time
      CHECK(status == ObjectStatus::kDone);
      s.repair();
      s.check_restored();
    }
  }
}

TEST_CASE("a commit of which nobody knows whether it was made keeps what it would name") {
  Repairing s;
  s.kill(s.segment().placement[0]);
  const uint64_t shards = s.cluster.shards();
  const uint64_t version = s.inspect().record->meta.version;
  // The commit is on its way for longer than anybody waits for it.
  delay(s, node::Opcode::kRecordApply, 30s);
  const auto outcome = s.try_repair();
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().code == ErrorCode::kUnknownOutcome);
  no_delays(s);
  CHECK(s.inspect().record->meta.version == version);
  CHECK(s.cluster.shards() == shards + 1);
  SECTION("it comes late") {
    s.cluster.run_for(40s);
    // Its head has it, and nobody has carried it on. Who commits next does.
    CHECK(s.inspect().record->meta.version == version);
    CHECK(s.repair().status == ObjectStatus::kAlreadyThere);
    CHECK(s.inspect().record->meta.version > version);
    CHECK(s.path() == ReadPath::kStriped);
  }
  SECTION("it comes late, and reclaim looks for what nothing refers to") {
    s.cluster.run_for(200s);
    CHECK(s.path() == ReadPath::kStriped);
    CHECK(s.repair().status == ObjectStatus::kAlreadyThere);
  }
  SECTION("another repair comes first") {
    CHECK(s.repair().status == ObjectStatus::kDone);
    const auto placement = s.segment().placement;
    s.cluster.run_for(40s);
    CHECK(s.segment().placement == placement);
  }
  SECTION("a write comes first") {
    REQUIRE(s.cluster.put(*s.proxy, "key", s.value));
    s.cluster.run_for(40s);
    CHECK(s.repair().status == ObjectStatus::kAlreadyThere);
  }
  s.check_restored();
}

TEST_CASE("a commit whose answer is lost is found again, or its outcome is unknown") {
  Repairing s;
  s.kill(s.segment().placement[0]);
  bool is_applied = false;
  const NodeId head = head_of(s);
  s.cluster.network().watch_commits([&](int proxy, NodeId at, uint32_t, const node::Record*) {
    if (proxy != s.proxy->id() || at != head || is_applied) return;
    is_applied = true;
    s.cluster.network().cut(proxy, head);
  });
  Repairing::Running running;
  s.begin(running);
  REQUIRE(s.cluster.run_until([&] { return is_applied; }));
  s.cluster.run_for(3s);  // a call takes two at most
  s.cluster.network().mend_all();
  run_to_end(s, running);
  const bool is_unknown =
      !running.outcome->has_value() && running.outcome->error().code == ErrorCode::kUnknownOutcome;
  CHECK((is_unknown || running.outcome->has_value()));
  CHECK(s.repair().status == ObjectStatus::kAlreadyThere);
  s.check_restored();
}

TEST_CASE("a fence between the writing of shards and their commit has the repair begin again") {
  Repairing s;
  s.kill(s.segment().placement[0]);
  const node::Segment before = s.segment();
  int commits = 0;
  s.cluster.network().set_delay_rule(
      [&](int proxy, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        const bool is_commit =
            proxy == s.proxy->id() && header.opcode == node::Opcode::kRecordApply;
        return is_commit && ++commits == 1 ? std::optional<Duration>(500ms) : std::nullopt;
      });
  Repairing::Running running;
  s.begin(running);
  REQUIRE(s.cluster.run_until([&] { return commits == 1; }));

  // As reclaim does before it deletes what the repair has written.
  records::Commit fence;
  fence.key = "key";
  fence.mutation = node::Mutation::kFence;
  fence.condition = node::Condition::kIfVersion;
  const auto tail =
      s.cluster.run(records::read_tail(s.decider->ops(), "key", s.cluster.deadline()));
  REQUIRE(tail.has_value());
  fence.condition_argument = fence.known_version = tail->record->meta.version;
  const auto fenced = s.cluster.run(
      records::commit(s.decider->ops(), s.decider->map().current(), fence, s.cluster.deadline()));
  REQUIRE(fenced.has_value());
  REQUIRE(fenced->status == records::CommitStatus::kCommitted);
  CHECK(fenced->record->content.segments.front() == before);
  REQUIRE_FALSE(running.is_over());

  run_to_end(s, running);
  REQUIRE(running.outcome->has_value());
  CHECK((*running.outcome)->status == ObjectStatus::kDone);
  CHECK((*running.outcome)->shards == 1);
  CHECK(commits == 2);
  CHECK(s.path() == ReadPath::kStriped);
  s.check_restored();
}

TEST_CASE("a repair waits for a node that is slow, and does without one that does not answer") {
  const auto opcode = GENERATE(node::Opcode::kShardRead, node::Opcode::kShardWrite,
                               node::Opcode::kShardConfirm, node::Opcode::kShardFingerprint);
  const auto time = GENERATE(as<Duration>{}, 900ms, 30s);
  CAPTURE(static_cast<int>(opcode), time.count());
  Repairing s(9, "ers-2:4,2,5");
  s.kill(s.segment().placement[0]);
  const bool writes = opcode == node::Opcode::kShardWrite;  // to the one that is chosen
  const NodeId slow = s.segment().placement[1];
  delay(s, opcode, time, [writes, slow](NodeId to) { return writes || to == slow; });
  const auto outcome = s.try_repair();
  if (time < 2s) {
    REQUIRE(outcome.has_value());
    CHECK(outcome->status == ObjectStatus::kDone);
  }
  if (!outcome) CHECK(outcome.error().code == ErrorCode::kTimeout);
  no_delays(s);
  s.cluster.run_for(40s);
  CHECK(s.cluster.get(*s.proxy, "key") == s.value);
  const ObjectStatus next = s.repair().status;
  CHECK(next == (outcome ? ObjectStatus::kAlreadyThere : ObjectStatus::kDone));
  s.check_restored();
}
