// The decider: the one flow that makes cluster maps (rules 1-4). It greets the nodes, heartbeats
// them, excludes the dead, admits the returned, has every survivor install a map before it is
// served, and drives the sync of partitions and reclaim.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/cluster/members.h"
#include "proxy/ops/context.h"
#include "proxy/ops/decider/settings.h"

namespace elastripe::decider {

// What `status` and /v1/nodes show; a snapshot by value.
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
struct ClusterStatus {
  // starting | forming | serving | waiting (with `reason`) | deposed
  std::string state = "starting";
  std::string reason;
  node::Epoch epoch;
  node::CapabilitySet capabilities;  // that the cluster uses
  uint64_t cluster_id = 0;
  std::vector<NodeStatus> nodes;
  uint32_t partitions = 0;
  uint32_t partitions_synced = 0;
  uint32_t partitions_lost = 0;
  uint32_t partitions_to_move = 0;  // are not where the ring says, as members came or are leaving
  uint32_t partitions_short = 0;    // have fewer homes than nodes allow, as these lack room
  // As the last survey found them (proxy/ops/jobs/survey.h): objects that lack shards and can be
  // read, and that lack too many.
  uint64_t objects_lacking = 0;
  uint64_t objects_lost = 0;
  std::vector<uint64_t> objects_surviving;  // by the number of further failures that they survive
  bool can_accept_loss = false;             // there is a loss for the operator to accept
  uint32_t flush_at = 0;                    // unix seconds of a flush that is pending; 0: none
};

// What an acceptance did, in the map that it made.
struct AcceptedLoss {
  uint32_t start_empty = 0;  // partitions that were LOST: they hold what was written since
  uint32_t lost = 0;         // partitions that are LOST now
  uint64_t objects = 0;      // that lack too many shards: they are deleted, in the background
};

// Runs on the control thread, with a NodeClient that clients' commands do not use. Its own sync and
// reclaim share it with the heartbeats.
class Decider {
 public:
  Decider(OpsContext& ops, DeciderSettings settings);
  ~Decider();

  // Until cancelled (shutdown) or deposed; publishes maps through ops.map.
  Task<void> run();

  ClusterStatus status() const;  // control thread
  // The operator accepts the loss that there is at this moment, and no later one: LOST partitions
  // start again, empty; objects that lack too many shards are deleted; a silent node whose last
  // copies the decider waits for is given up, and those partitions become LOST. kConflict: nothing
  // is lost. kUnavailable: no map can be made just now, and why.
  Result<AcceptedLoss> accept_loss();
  // The operator vouches that this node's process is gone, with its memory: it counts as refusing
  // connections until it answers. kNotFound: no such node. kConflict: it answers. kUnavailable: not
  // now, and why.
  Result<void> declare_dead(std::string_view name);
  // A node is added, drained or removed, in the map that follows at once. It ends when that map is
  // made; the status tells what becomes of it. One change follows another only when its map is
  // served, so that any two majorities know each other. kNotFound, kConflict, kInvalid: the list of
  // members does not allow it. A node is removed only when it is lost, or has been drained and is
  // empty. kUnavailable: not now, and why.
  Result<void> change_members(const MemberChange& change);
  // Shards were made again: counts anew which objects lack some.
  void survey_again();
  // All values that clients have stored become misses, at once (`at` 0) or at a unix second: then
  // this replaces whatever time was pending. Ends when a map that says so is served. Flows that ask
  // at the same time share one map, and such maps keep their distance. kUnavailable: definitely not
  // flushed; kUnknownOutcome: maybe, or it may come.
  Task<Result<void>> flush_all(uint32_t at, TimePoint deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace elastripe::decider
