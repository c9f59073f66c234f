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
  std::string text() const;  // "(4,1,5)"
  int nodes() const { return k_prime + m; }
};

inline constexpr std::array kLayouts{"srs", "ers-1", "ers-2"};
inline constexpr std::array kExecutions{"proxy", "delta"};
inline constexpr std::array kDirections{Direction::kForward, Direction::kBackward};

const char* name_of(Direction direction);

// Blocks of one transition of one segment on the network.
struct Blocks {
  uint64_t read = 0;
  uint64_t sent = 0;

  friend bool operator==(const Blocks&, const Blocks&) = default;
};

// As the plan says.
cli::Result<Blocks> planned_blocks(const Parameters& parameters, const std::string& layout,
                                   Direction direction, const std::string& execution,
                                   bool order_selection);

// What has gone over the network since the cluster started, by two counts: of the proxy, every byte
// of its connections to nodes; of the nodes, their frames.
struct WireBytes {
  uint64_t proxy = 0;
  uint64_t nodes = 0;
};

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

class TransitionCluster {
 public:
  struct Settings {
    Parameters parameters;
    int port = 15311;
    int memory_mb = 1024;                      // of each node
    std::vector<cli::PoolSettings> more = {};  // pools beside those of the layouts
  };
  static cli::Result<std::unique_ptr<TransitionCluster>> start(const Settings& settings);

  const Target& target() const { return cluster_.target; }
  ObjectClient& client() const { return *client_; }

  // Prefix of the keys of a layout's pool.
  static std::string prefix_of(const std::string& layout) { return layout + "/"; }

  // Its report, after its end; an error unless every object that it met went, or was there.
  cli::Result<Json> transition(const TransitionCall& call) const;

  cli::Result<WireBytes> wire_bytes() const;

 private:
  TransitionCluster(Parameters parameters, std::unique_ptr<Testbed> testbed, Cluster cluster,
                    cli::AdminClient admin, std::unique_ptr<ObjectClient> client)
      : parameters_(parameters),
        testbed_(std::move(testbed)),
        cluster_(std::move(cluster)),
        admin_(std::move(admin)),
        client_(std::move(client)) {}

  Parameters parameters_;
  std::unique_ptr<Testbed> testbed_;
  Cluster cluster_;
  cli::AdminClient admin_;
  std::unique_ptr<ObjectClient> client_;
};

}  // namespace elastripe::bench
