// An object that is repaired, on a cluster of virtual time.
#pragma once

#include <optional>

#include "proxy/ops/jobs/repair.h"
#include "tests/unit/ops/jobs/moving_fixture.h"

namespace elastripe {

struct Repairing : Moving {
  using Moving::Moving;

  Result<RepairOutcome> try_repair(const std::string& key = "key") {
    return cluster.run(repair_object(proxy->ops(), {.key = key}));
  }
  RepairOutcome repair(const std::string& key = "key") {
    auto outcome = try_repair(key);
    REQUIRE(outcome.has_value());
    return std::move(*outcome);
  }
  // Goes on while the test does something else.
  struct Running {
    std::optional<Result<RepairOutcome>> outcome;
    Scope scope;
    bool is_over() const { return outcome && scope.live() == 0; }
  };
  void begin(Running& running) {
    running.scope.spawn([](OpsContext& ops, auto* result) -> Task<void> {
      *result = co_await repair_object(ops, {.key = "key"});
    }(proxy->ops(), &running.outcome));
  }
  void start(NodeId id) {
    cluster.node(id).start();
    REQUIRE(cluster.run_until([&] {
      const MapPtr map = decider->map().current();
      return map != nullptr && map->is_up(id) && cluster.serves_whole(*decider);
    }));
    follow();
  }
  // All segments have all their shards, and nothing else is kept.
  void check_restored(size_t segments = 1) {
    check_whole();
    for (const auto& health : inspect().segments) CHECK(health.missing.empty());
    const size_t shards = segment().placement.size() * segments;
    CHECK(cluster.run_until([&] { return cluster.shards() == shards; }, 300s));
  }
};

}  // namespace elastripe
