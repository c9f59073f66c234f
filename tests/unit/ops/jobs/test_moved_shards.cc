// Shards that are on another node than they were written to, under a txid of their own: whoever
// meets one of them finds it where the record says.
#include "proxy/ops/jobs/transition.h"
#include "tests/unit/ops/jobs/moving_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

TEST_CASE("a moved shard is read where it is now") {
  const size_t index = GENERATE(as<size_t>{}, 0, 2, 5);
  Moving s;
  const NodeId from = s.segment().placement[index];
  s.move(index, s.spare());
  s.check_whole();
  CHECK(s.path() == ReadPath::kStriped);
  s.kill(from);
  s.check_whole();
  CHECK(s.path() == ReadPath::kStriped);
  s.kill(s.segment().placement[1]);
  CHECK(s.path() == ReadPath::kDegraded);
}

TEST_CASE("a moved shard is missing when the node that it moved to has lost its memory") {
  Moving s;
  s.move(0, s.spare());
  const NodeId to = s.segment().placement[0];
  s.kill(to);
  s.cluster.node(to).start();
  REQUIRE(s.cluster.run_until([&] {
    const MapPtr map = s.decider->map().current();
    return map != nullptr && map->is_up(to) && s.cluster.serves_whole(*s.decider);
  }));
  s.follow();
  CHECK(s.inspect().segments.front().missing == std::vector<uint8_t>{0});
  CHECK(s.path() == ReadPath::kDegraded);
}

TEST_CASE("a reader that knows the object from before reads the moved shard by the newest record") {
  const bool in_place = GENERATE(false, true);  // rebuilt where it had been lost
  const bool is_gone = GENERATE(false, true);
  Moving s;
  sim::SimProxy& reader = s.cluster.add_proxy();
  reader.map().serve(s.decider->map().current());
  REQUIRE(s.cluster.get(reader, "key") == s.value);
  const NodeId from = s.segment().placement[0];
  const auto old = s.name(0);
  s.move(0, in_place ? from : s.spare());
  if (is_gone) s.remove(from, old);
  const auto read = s.cluster.run(get_whole(reader.ops(), "key", s.cluster.deadline()));
  REQUIRE(read.has_value());
  CHECK(read->value() == s.value);
  CHECK(read->path == ReadPath::kStriped);
}

TEST_CASE("reclaim deletes what a shard has left behind, and keeps it where it is now") {
  const bool comes_back = GENERATE(false, true);
  Moving s;
  const NodeId first = s.segment().placement[0];
  const NodeId second = s.spare();
  const auto at_first = s.name(0);
  s.move(0, second);
  const auto at_second = s.name(0);
  if (comes_back) s.move(0, first);
  const auto at_last = s.name(0);
  CHECK(s.cluster.shards() == kShards + (comes_back ? 2 : 1));
  REQUIRE(s.cluster.run_until([&] { return s.cluster.shards() == kShards; }, 300s));
  CHECK_FALSE(s.has(first, at_first));
  CHECK(s.has(second, at_second) != comes_back);
  CHECK(s.has(s.segment().placement[0], at_last));
  s.cluster.run_for(200s);
  CHECK(s.cluster.shards() == kShards);
  s.check_whole();
}

TEST_CASE("a shard that comes back within the grace is not the one that is deleted then") {
  Moving s;
  const NodeId first = s.segment().placement[0];
  const NodeId second = s.spare();
  const auto old = s.name(0);
  s.move(0, second);
  delete_after_grace(s.proxy->ops(), {{first, {old}}});
  const auto there = s.name(0);
  s.move(0, first);
  delete_after_grace(s.proxy->ops(), {{second, {there}}});
  s.cluster.run_for(s.cluster.settings.read_grace + 5s);
  CHECK(s.cluster.shards() == kShards);
  CHECK_FALSE(s.has(first, old));
  s.check_whole();
}

TEST_CASE("a transition there and back keeps moved data, and replaces moved parities") {
  const Execution execution = GENERATE(Execution::kDelta, Execution::kProxy);
  Moving s;
  for (const size_t index : {size_t{2}, size_t{5}}) {
    const NodeId from = s.segment().placement[index];
    const auto old = s.name(index);
    s.move(index, s.spare());
    s.remove(from, old);
  }
  const auto data = s.name(2);
  const auto parity = s.name(5);
  const NodeId on = s.segment().placement[5];
  for (const int to : {5, 4}) {
    const auto outcome = s.cluster.run(
        transition_object(s.proxy->ops(), {.key = "key", .to = to, .execution = execution}));
    REQUIRE(outcome.has_value());
    CHECK(outcome->status == ObjectStatus::kDone);
    CHECK(s.segment().moved == std::vector<node::MovedShard>{{2, data.txid}});
    CHECK(s.segment().placement[5] == on);
    CHECK(s.name(5).txid != parity.txid);
    s.check_whole();
  }
  s.cluster.run_for(s.cluster.settings.read_grace + 5s);
  CHECK(s.cluster.shards() == kShards);
  CHECK_FALSE(s.has(on, parity));
  CHECK(s.has(s.segment().placement[2], data));
  s.kill(s.segment().placement[0]);
  CHECK(s.path() == ReadPath::kDegraded);
}

TEST_CASE("moved shards go with the value that they are of") {
  const bool is_deleted = GENERATE(false, true);
  Moving s;
  for (const size_t index : {size_t{0}, size_t{5}}) {
    const NodeId from = s.segment().placement[index];
    const auto old = s.name(index);
    s.move(index, s.spare());
    s.remove(from, old);
  }
  const auto data = s.name(0);
  const NodeId on = s.segment().placement[0];
  if (is_deleted) {
    REQUIRE(s.cluster.run(remove_object(s.proxy->ops(), "key", s.cluster.deadline())).value());
  } else {
    REQUIRE(s.cluster.put(*s.proxy, "key", value_of(2000)));
  }
  CHECK(s.has(on, data));
  s.cluster.run_for(s.cluster.settings.read_grace + 5s);  // reclaim would take longer
  CHECK(s.cluster.shards() == (is_deleted ? 0 : kShards));
  CHECK_FALSE(s.has(on, data));
}
