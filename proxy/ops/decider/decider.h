// The decider: the one flow that makes cluster maps (rules 1-4). It greets the nodes, heartbeats
// them, excludes the dead, admits the returned, has every survivor install a map before it is
// served, and drives the sync of partitions and reclaim.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/cluster/members.h"
#include "proxy/cluster/membership.h"
#include "proxy/ops/context.h"
#include "proxy/ops/decider/cluster_status.h"
#include "proxy/ops/decider/election.h"
#include "proxy/ops/decider/last_decider.h"
#include "proxy/ops/decider/settings.h"

namespace elastripe::decider {

// Runs on the control thread, with a NodeClient that clients' commands do not use. Its own sync and
// reclaim share it with the heartbeats.
class Decider {
 public:
  // Tells `election` what becomes of it; takes over what the decider before it has handed over to
  // `last`, and leaves there what it knows itself when it ends. Both outlive it.
  Decider(OpsContext& ops, DeciderSettings settings, Election& election, LastDecider& last);
  ~Decider();

  // Until cancelled (shutdown) or deposed; publishes maps through ops.map.
  Task<void> run();
  // After run(), before it is destroyed: its flows have to end, for which nobody need wait else.
  Task<void> join();

  ClusterStatus status() const;  // control thread
  Handover handover() const;     // for its card; control thread
  // That of the epochs that it makes.
  uint32_t id() const;
  // It was deposed, or stopped, and run() is about to end: what is asked of it is another one's.
  bool is_over() const;
  // Since then a majority of the nodes has said that it has this decider's newest map: nobody else
  // was served by others before.
  bool has_majority_since(TimePoint since) const;
  // The operator accepts the loss that there is at this moment, and no later one: LOST partitions
  // start again, empty; objects that lack too many shards are deleted; a silent node whose last
  // copies the decider waits for is given up, and those partitions become LOST. Where that takes
  // a map, it ends as change_settings() does. kConflict: nothing is lost. kUnavailable: no map can
  // be made just now, and why.
  Task<Result<AcceptedLoss>> accept_loss(TimePoint deadline);
  // The operator vouches that this node's process is gone, with its memory: it counts as refusing
  // connections until it answers. kNotFound: no such node. kConflict: it answers. kUnavailable: not
  // now, and why.
  Result<void> declare_dead(std::string_view name);
  // A node is added, drained or removed, in the map that follows at once. It ends as
  // change_settings() does; the status tells what becomes of the node. One change follows another
  // only when its map is served, so that any two majorities know each other. kNotFound, kConflict,
  // kInvalid: the list of members does not allow it. A node is removed only when it is lost, or has
  // been drained and is empty. kUnavailable: not now, and why.
  Task<Result<void>> change_members(MemberChange change, TimePoint deadline);
  // The cluster-wide settings change, in the map that follows at once. Ends when that is served,
  // and this proxy goes by it: whoever takes over may pass over a map that was not, and give its
  // version to another change. kConflict: they are not of that version any more. kUnavailable: not
  // now, or not before all nodes know of such settings; kInvalid: they are none. kUnknownOutcome:
  // the map was made, and another decider may build upon it, or not.
  Task<Result<void>> change_settings(SettingsChange change, TimePoint deadline);
  // What this proxy's settings are now, for a cluster that has none.
  void know_own(const DeciderSettings& settings);
  // Whom to ask what all other proxies have: what the cluster uses gets more only within that.
  // Without, there are none.
  using ProxiesHave = std::function<node::CapabilitySet()>;
  void know_proxies(ProxiesHave have);
  // Another proxy is to decide; until one does, this one does.
  void leave();
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
