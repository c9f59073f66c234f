// What `status` and /v1/nodes show of a cluster and of the proxies that serve it: by value.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/async/clock.h"
#include "proxy/cluster/membership.h"
#include "server-patches/node/format/cluster_map.h"
#include "server-patches/node/format/node_statistics.h"

namespace elastripe::decider {

struct NodeStatus {
  node::NodeInfo info;
  bool has_lease = false;
  uint64_t last_answer_age_ms = 0;
  uint32_t partitions_home = 0;
  uint32_t partitions_synced = 0;
  uint32_t partitions_source = 0;  // that others are still synced from it
  uint64_t free_bytes = 0;
  bool has_room = true;  // for further partitions
  node::NodeStatistics statistics;
  std::string version;        // of its build
  node::CapabilitySet lacks;  // of what the cluster uses: it stays out
  uint64_t process = 0;       // the incarnation that answered last, a member or not
};
// What only the decider finds out.
struct DeciderFindings {
  uint32_t partitions_to_move = 0;  // are not where the ring says, as members came or are leaving
  uint32_t partitions_short = 0;    // have fewer homes than nodes allow, as these lack room
  // As the last survey found them (proxy/ops/jobs/survey.h): objects that lack shards and can be
  // read, and that lack too many.
  uint64_t objects_lacking = 0;
  uint64_t objects_lost = 0;
  std::vector<uint64_t> objects_surviving;  // by the number of further failures that they survive
  bool can_accept_loss = false;             // there is a loss for the operator to accept
  // How far repair and scrubs are, which are the deciding proxy's: as its status shows them, a JSON
  // object. Empty: nothing was told.
  std::string maintenance = {};

  friend bool operator==(const DeciderFindings&, const DeciderFindings&) = default;
};
// What only the decider knows and no map says, for whoever decides after it. Processes of nodes are
// named by their incarnations, so that nothing is taken for true of another one.
struct Handover {
  // As RoomWatch has it.
  struct RoomOf {
    node::NodeId node = 0;
    uint64_t incarnation = 0;
    Room room = Room::kForMore;
    std::chrono::milliseconds wait{};
    std::chrono::milliseconds try_in{};

    friend bool operator==(const RoomOf&, const RoomOf&) = default;
  };
  // A card tells so many, the first ones.
  static constexpr size_t kMost = 256;

  std::vector<RoomOf> rooms;  // of nodes that have refused a sync for lack of room
  uint32_t surveyed_in = 0;   // the number of the epoch in which objects were counted; 0: never
  // Until the next background scrub, from when it was told; zero while one runs. Nothing: there are
  // none, or a card of an older build does not say.
  std::optional<std::chrono::seconds> scrub_due_in = {};
  // In which the operator has accepted that lost objects are deleted, which goes on; 0: in none.
  node::Epoch forgets_in = {};

  friend bool operator==(const Handover&, const Handover&) = default;
};
// How the proxies of a cluster agree on who decides, as one of them sees it.
struct ElectionStatus {
  std::string by = "nodes";  // or "etcd"
  std::string elected = {};  // whom etcd has, in its own words; empty: nobody, or it is not known
  std::string problem = {};  // why nobody can be elected now; empty: there is none

  friend bool operator==(const ElectionStatus&, const ElectionStatus&) = default;
};

// What a proxy tells all others of itself, again and again.
struct ProxyCard {
  std::string name;                       // of the process: hexadecimal, random
  std::string clients;                    // "host:port" or a path, where they connect
  std::string admin;                      // "host:port"
  std::string version;                    // of its build
  uint32_t decides_as = 0;                // the decider of the epochs that it makes; 0: it follows
  bool leaves = false;                    // it is shutting down
  DeciderFindings findings = {};          // of one that decides
  node::CapabilitySet capabilities = {};  // of its build
  bool runs_jobs = false;                 // for others, while it decides
  Handover handover = {};                 // of one that decides
  std::optional<int64_t> unix_ms = {};    // what its wall clock showed then

  friend bool operator==(const ProxyCard&, const ProxyCard&) = default;
};

struct KnownProxy {
  ProxyCard card;
  Duration age{};  // since it was heard of
  bool is_self = false;
};

struct ClusterStatus : DeciderFindings {
  // starting | forming | serving | waiting (with `reason`) | deposed
  std::string state = "starting";
  bool decides = true;  // else the proxy follows another one, which does
  std::string reason;
  node::Epoch epoch;
  node::CapabilitySet capabilities;  // that the cluster uses
  uint64_t cluster_id = 0;
  uint32_t settings_version = 0;  // of the cluster-wide ones; 0: there are none
  std::vector<NodeStatus> nodes;
  uint32_t partitions = 0;
  uint32_t partitions_synced = 0;
  uint32_t partitions_lost = 0;
  uint32_t flush_at = 0;            // unix seconds of a flush that is pending; 0: none
  std::vector<KnownProxy> proxies;  // that serve it, this one first
  ElectionStatus election;
};

// What an acceptance did, in the map that it made.
struct AcceptedLoss {
  uint32_t start_empty = 0;  // partitions that were LOST: they hold what was written since
  uint32_t lost = 0;         // partitions that are LOST now
  uint64_t objects = 0;      // that lack too many shards: they are deleted, in the background
};

}  // namespace elastripe::decider
