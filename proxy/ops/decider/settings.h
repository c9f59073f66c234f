// What the decider is told by the configuration, with its defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "proxy/async/clock.h"
#include "proxy/base/setting_rows.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe::decider {

struct ConfiguredNode {
  std::string name;
  std::string host;
  uint16_t port = 0;
  std::string domain;

  friend bool operator==(const ConfiguredNode&, const ConfiguredNode&) = default;
};

struct DeciderSettings {
  std::vector<ConfiguredNode> nodes = {};  // by node id
  uint32_t partitions = 1024;
  Duration heartbeat = std::chrono::milliseconds(100);
  Duration suspect_after = std::chrono::seconds(1);
  Duration lease = std::chrono::seconds(3);
  bool force_epoch = false;  // start without a majority: the operator vouches for the rest
  bool gives_way = false;    // ends when another one was faster, as if it had been deposed
  bool hands_over = false;   // deposed, it leaves its map served, for the follower that it becomes
  bool refused_is_dead = true;
  bool joins = false;  // it forms no cluster
  // Names of nodes that have just not answered a follower: who begins to decide asks them again,
  // but waits for them no longer than for others.
  std::vector<std::string> silent = {};
  node::CapabilitySet capabilities = node::own_capabilities();
  // M, at least: what the proxy's pools wanted when it began. They may have changed before it
  // decides, and may change back.
  uint8_t max_parities = 0;
  // All that is the cluster's of the proxy's configuration, as it writes that; a cluster that has
  // no such settings gets them.
  std::string cluster_text = {};

  friend bool operator==(const DeciderSettings&, const DeciderSettings&) = default;
};

// Who sleeps to the next heartbeat looks so often whether that has come nearer.
inline constexpr Duration kLongestNap = std::chrono::milliseconds(100);

// This proxy's, as the first of a cluster.
node::ClusterSettings cluster_settings(const DeciderSettings& settings);
// The times of the cluster take the place of the configured ones, if the map has any. True: they
// were others.
bool follow_cluster(DeciderSettings& settings, const node::ClusterMap& map);

// Likewise those of another one.
void take_times(DeciderSettings& settings, const DeciderSettings& from);

// force_epoch is an option of the command line, the capabilities are those of the build, and M is
// that of the pools.
void each_setting(DeciderSettings& s, auto& row) {
  using namespace setting;
  row("partitions", s.partitions, Range{1, 65536},
      "Parts that the keys are hashed into: a power of two, at most 32768 where a pool's m is "
      "above "
      "5. Fixed for the life of a cluster. One is synced as a whole: the proxy takes some 200 "
      "bytes a key of it, so many objects want many partitions.");
  row.cluster_wide([&] {
    row("refused_is_dead", s.refused_is_dead, TrueOrFalse{},
        "A refused connection proves that a node's process is gone, so that its memory is given up "
        "at once. Say false where a firewall may refuse connections to a node that lives: then a "
        "node is dead only when a new process answers at its address, or when the operator "
        "declares "
        "it dead.");
    row("timing.heartbeat_ms", s.heartbeat, Range{10, 60'000},
        "How often every node is asked whether it lives.");
    row("timing.suspect_after_ms", s.suspect_after, Range{20, 600'000},
        "A node that has not answered for so long is taken out; at least twice heartbeat_ms.");
    row("timing.lease_ms", s.lease, Range{30, 600'000},
        "A node that has not heard from the proxy for so long stops serving; must be above "
        "suspect_after_ms, and at least three times heartbeat_ms.");
  });
}

}  // namespace elastripe::decider
