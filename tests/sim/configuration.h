// What a proxy of a scenario is started with: nodes, pools, timing. Deciders that start later may
// find another one, as its operator has changed the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/cluster/pool.h"
#include "proxy/ops/context.h"
#include "proxy/ops/decider/decider.h"
#include "tests/sim/scenario.h"

namespace elastripe::sim {

struct Configuration {
  // A cluster of so many nodes, with `scheme` for the default pool.
  Configuration(const Scenario& scenario, size_t nodes, std::string_view scheme);

  size_t parities() const { return static_cast<size_t>(pools.max_parities()); }

  PoolTable pools;
  OpsSettings ops;
  decider::DeciderSettings decider;
};

// A node as deciders are told of it, in their configuration or later.
decider::ConfiguredNode node_of_member(const Scenario& scenario, size_t id);

// The failure domain of a node: its own, unless nodes share them.
std::string domain_of(const Scenario& scenario, size_t node);

}  // namespace elastripe::sim
