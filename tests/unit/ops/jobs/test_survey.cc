#include <catch2/catch.hpp>
#include <numeric>

#include "proxy/ops/jobs/survey.h"
#include "proxy/ops/objects/outcome.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace elastripe::decider;
using namespace std::chrono_literals;
using node::NodeState;

namespace {

// Objects in shards, RS(2,1), on nodes that come back empty.
struct Surveyed : ClusterFixture {
  Surveyed() {
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
  }
  std::vector<node::NodeId> placement(const std::string& key) {
    const auto report = run(inspect_object(proxy->ops(), key, deadline()));
    REQUIRE(report);
    return report->record->content.segments.front().placement;
  }
  void lose_memory(node::NodeId id) {
    node(id).kill(/*silent=*/false);
    const auto is_in = [&](NodeState state) {
      return proxy->decider()->status().nodes[id].info.state == state;
    };
    REQUIRE(run_until([&] { return is_in(NodeState::kLost); }, 10s));
    node(id).start();
    REQUIRE(run_until([&] { return is_in(NodeState::kUp) && serves_whole(*proxy); }, 20s));
  }
  bool finds(uint64_t lacking, uint64_t lost) {
    return run_until(
        [&] {
          const ClusterStatus status = proxy->decider()->status();
          return status.objects_lacking == lacking && status.objects_lost == lost;
        },
        20s);
  }
  bool add(const std::string& key, const std::string& text) {
    StoreRequest request;
    request.verb = StoreVerb::kAdd;
    request.key = key;
    const auto stored = run(store_value(proxy->ops(), request, text, deadline()));
    return stored.has_value() && *stored == StoreStatus::kStored;
  }
  Result<AcceptedLoss> accept_loss() { return run(proxy->decider()->accept_loss(deadline())); }

  sim::SimProxy* proxy = nullptr;
  const std::string value = std::string(1000, 'v');
};

}  // namespace

TEST_CASE("objects that lack shards are counted, and forgotten when their loss is accepted") {
  Surveyed cluster;
  REQUIRE(cluster.put(*cluster.proxy, "key", cluster.value));
  REQUIRE(cluster.put(*cluster.proxy, "small", "inline"));
  const auto placement = cluster.placement("key");
  CHECK(cluster.finds(0, 0));
  cluster.lose_memory(placement[0]);
  CHECK(cluster.finds(1, 0));
  CHECK(cluster.get(*cluster.proxy, "key") == cluster.value);
  CHECK(cluster.accept_loss().error().code == ErrorCode::kConflict);
  cluster.lose_memory(placement[1]);
  REQUIRE(cluster.finds(0, 1));
  CHECK(cluster.proxy->decider()->status().partitions_lost == 0);
  CHECK(cluster.get(*cluster.proxy, "key").starts_with("lost"));
  CHECK(!cluster.add("key", "again"));

  const auto accepted = cluster.accept_loss();
  REQUIRE(accepted);
  CHECK(accepted->objects == 1);
  REQUIRE(cluster.finds(0, 0));
  CHECK(cluster.get(*cluster.proxy, "key") == "<miss>");
  CHECK(cluster.get(*cluster.proxy, "small") == "inline");
  CHECK(cluster.add("key", "again"));
  CHECK(cluster.get(*cluster.proxy, "key") == "again");
  CHECK(cluster.accept_loss().error().code == ErrorCode::kConflict);
}

TEST_CASE("shards of nodes that do not answer are neither there nor gone") {
  Surveyed cluster;
  REQUIRE(cluster.put(*cluster.proxy, "key", cluster.value));
  const auto placement = cluster.placement("key");
  cluster.lose_memory(placement[0]);
  cluster.node(placement[1]).stall();
  REQUIRE(cluster.run_until(
      [&] {
        return cluster.proxy->decider()->status().nodes[placement[1]].info.state ==
                   NodeState::kSuspect &&
               cluster.serves_whole(*cluster.proxy);
      },
      20s));
  cluster.run_for(5s);
  CHECK(cluster.finds(1, 0));
  CHECK(cluster.proxy->decider()->status().objects_surviving == std::vector<uint64_t>{1});
  CHECK(!cluster.proxy->decider()->status().can_accept_loss);
  cluster.node(placement[1]).resume();
  REQUIRE(cluster.run_until([&] { return cluster.get(*cluster.proxy, "key") == cluster.value; }));
}

TEST_CASE("a lost object that is written again is not forgotten") {
  Surveyed cluster;
  REQUIRE(cluster.put(*cluster.proxy, "key", cluster.value));
  const auto placement = cluster.placement("key");
  cluster.lose_memory(placement[0]);
  cluster.lose_memory(placement[1]);
  REQUIRE(cluster.finds(0, 1));
  const std::string next(2000, 'n');
  REQUIRE(cluster.put(*cluster.proxy, "key", next));
  REQUIRE(cluster.accept_loss());
  REQUIRE(cluster.finds(0, 0));
  CHECK(cluster.get(*cluster.proxy, "key") == next);
}

TEST_CASE("objects are counted by the failures that they survive, also those that came later") {
  Surveyed cluster;  // m = 1
  const auto surviving = [&] { return cluster.proxy->decider()->status().objects_surviving; };
  for (int i = 0; i < 5; ++i) {
    REQUIRE(cluster.put(*cluster.proxy, "key" + std::to_string(i), cluster.value));
  }
  REQUIRE(cluster.put(*cluster.proxy, "small", "inline"));
  using Counts = std::vector<uint64_t>;
  CHECK(cluster.run_until([&] { return surviving() == Counts{0, 5}; }, 90s));
  const auto placement = cluster.placement("key0");
  cluster.lose_memory(placement[0]);
  REQUIRE(cluster.run_until([&] { return !surviving().empty() && surviving()[0] > 0; }, 20s));
  const auto lacking = cluster.proxy->decider()->status().objects_lacking;
  CHECK(surviving()[0] == lacking);
  CHECK(surviving().size() == (lacking == 5 ? 1 : 2));
  cluster.lose_memory(placement[1]);
  const auto lost = [&] { return cluster.proxy->decider()->status().objects_lost; };
  REQUIRE(cluster.run_until([&] { return lost() > 0; }, 20s));
  const Counts after = surviving();
  CHECK(std::accumulate(after.begin(), after.end(), lost()) == 5);
}
