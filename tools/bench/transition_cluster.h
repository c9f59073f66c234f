// A cluster for measuring transitions: the least nodes that one ERS(k, m, k') needs, and a pool for
// each layout that stripes all objects. Transitions are started as users start them, at the admin
// interface.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coding/transition_plan.h"
#include "tools/bench/object_client.h"
#include "tools/bench/rows.h"
#include "tools/bench/testbed.h"

namespace elastripe::bench {

using coding::Direction;

struct Parameters {
  int k = 0;
  int m = 0;
  int k_prime = 0;

  friend bool operator==(const Parameters&, const Parameters&) = default;
  std::string text() const;                             // "(4,1,5)"
  std::string scheme(const std::string& layout) const;  // "ers-2:4,1,5"
};

// The sets of the ERS paper, the first one its default.
inline constexpr std::array<Parameters, 6> kPaperSets{
    {{4, 1, 5}, {5, 1, 6}, {8, 2, 10}, {9, 2, 10}, {10, 3, 12}, {12, 3, 14}}};
inline constexpr std::array kLayouts{"srs", "ers-1", "ers-2"};
inline constexpr std::array kExecutions{"proxy", "delta"};
inline constexpr std::array kDirections{Direction::kForward, Direction::kBackward};

const char* name_of(Direction direction);

// What POST /v1/transitions is sent (docs/admin-api.md).
struct TransitionCall {
  std::string key = {};     // of one object, or
  std::string prefix = {};  // of many
  Direction direction = Direction::kForward;
  std::string execution = "delta";
  bool order_selection = true;
  uint32_t parallel = 4;
  uint64_t rate = 0;  // bytes a second
};

// Blocks of one transition of one segment on the network.
struct Blocks {
  uint64_t read = 0;
  uint64_t sent = 0;

  friend bool operator==(const Blocks&, const Blocks&) = default;
};
// As the plan says.
cli::Result<Blocks> planned_blocks(const Parameters& parameters, const std::string& layout,
                                   const TransitionCall& call);

struct TransitionCluster {
  Parameters parameters;
  std::unique_ptr<Testbed> testbed;
  Cluster cluster;
  cli::AdminClient admin;
  std::unique_ptr<ObjectClient> client;

  // Pools are those of the layouts, with the layout and a slash as their prefix, and `more`.
  static cli::Result<TransitionCluster> start(const Parameters& parameters, int port,
                                              int memory_mb,  // of each node
                                              const std::vector<cli::PoolSettings>& more = {});

  // Puts objects of the same bytes, under the prefix and their numbers.
  cli::Result<> put(const std::string& prefix, int objects, size_t bytes) const;

  // Its report, after its end; an error unless every object that it met went, or was there.
  cli::Result<Json> transition(const TransitionCall& call) const;

  // What has gone over the network since the cluster started, by two counts: "proxy_wire_bytes",
  // every byte of the proxy's connections to nodes, and "node_wire_bytes", the nodes' frames.
  cli::Result<Json> wire_bytes() const;
};

}  // namespace elastripe::bench
