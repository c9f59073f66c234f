#include <catch2/catch.hpp>
#include <map>

#include "proxy/ops/jobs/list_objects.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

namespace {

struct Seen final : ObjectVisitor {
  Task<bool> visit(ListedObject object) override {
    sizes[std::string(object.key)] = object.size;
    exptimes[std::string(object.key)] = object.exptime;
    ++visits;
    if (at_visit) at_visit();
    co_return visits != most;
  }

  std::map<std::string, uint64_t> sizes;
  std::map<std::string, uint32_t> exptimes;
  size_t visits = 0;
  size_t most = 0;  // 0: all
  std::function<void()> at_visit;
};

struct Listed : ClusterFixture {
  Listed() {
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
  }

  sim::SimProxy* proxy = nullptr;
  Seen seen;
};

}  // namespace

TEST_CASE("every live object is listed once, small and large") {
  Listed cluster;
  std::map<std::string, uint64_t> stored;
  for (size_t i = 0; i < 60; ++i) {
    const std::string key = (i % 2 == 0 ? "key" : "wide:") + std::to_string(i);
    stored[key] = i * 100;
    REQUIRE(cluster.put(*cluster.proxy, key, std::string(i * 100, 'v')));
  }
  REQUIRE(cluster.put(*cluster.proxy, "deleted", "x"));
  REQUIRE(cluster.run(objects::remove_object(cluster.proxy->ops(), "deleted", cluster.deadline())));
  REQUIRE(cluster.put(*cluster.proxy, "expired", "x", /*exptime=*/1));
  REQUIRE(cluster.run(list_objects(cluster.proxy->ops(), cluster.seen)));
  CHECK(cluster.seen.sizes == stored);
  CHECK(cluster.seen.visits == stored.size());
  CHECK(cluster.seen.exptimes["key0"] == 0);
}

TEST_CASE("a listing ends when no more is wanted") {
  Listed cluster;
  for (int i = 0; i < 10; ++i) REQUIRE(cluster.put(*cluster.proxy, std::to_string(i), "x"));
  cluster.seen.most = 3;
  REQUIRE(cluster.run(list_objects(cluster.proxy->ops(), cluster.seen)));
  CHECK(cluster.seen.visits == 3);
}

TEST_CASE("a node that dies under a listing leaves nothing out") {
  Listed cluster;
  for (int i = 0; i < 40; ++i) REQUIRE(cluster.put(*cluster.proxy, std::to_string(i), "x"));
  cluster.seen.at_visit = [&] {
    if (cluster.seen.visits == 5) cluster.node(4).kill(/*silent=*/true);
  };
  REQUIRE(cluster.run(list_objects(cluster.proxy->ops(), cluster.seen)));
  CHECK(cluster.seen.sizes.size() == 40);
}
