// Repairer: brings all objects back to their full redundancy, by a repair job after each change of
// the nodes. It needs to be told of nothing: a new map says that nodes went or came, and the job
// asks the nodes what they have.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "proxy/ops/jobs/repair_job.h"
#include "proxy/ops/jobs/repair_settings.h"

namespace elastripe::jobs {

struct RepairStatus {
  bool is_automatic = true;
  bool is_running = false;
  std::string waits_for;  // empty: for nothing
  // The newest map under which nothing lacked anything when all had been looked at; number 0: none.
  node::Epoch settled_in;
  JobProgress progress;  // of the job that runs, or of the last one
};

// On one thread, that of `ops`. Outlives its run().
class Repairer {
 public:
  static constexpr Duration kLookPeriod = std::chrono::seconds(1);
  // After a job that could not restore everything, or that failed.
  static constexpr Duration kRetryAfter = std::chrono::seconds(60);
  // While a node drains: what was being written when it began is still to come. Twice as long with
  // each job that finds nothing any more.
  static constexpr Duration kDrainPeriod = std::chrono::seconds(2);
  // Also if no node came or went: a write whose proxy died half-way may come to light late, and
  // lack what has gone since.
  static constexpr Duration kLookAgainAfter = std::chrono::minutes(10);

  // `on_repaired` is called when a job has restored something.
  Repairer(
      OpsContext& ops, RepairSettings settings, std::function<void()> on_repaired = [] {})
      : ops_(ops), settings_(settings), on_repaired_(std::move(on_repaired)) {}

  // Until shutdown; ends at once if repair is not automatic.
  Task<void> run();
  RepairStatus status() const;

 private:
  void note_nodes(const node::ClusterMap& map);
  // Empty: a job has to run now.
  std::string waits_for(const node::ClusterMap& map) const;
  Task<void> repair(MapPtr map);

  OpsContext& ops_;
  const RepairSettings settings_;
  const std::function<void()> on_repaired_;
  std::map<NodeId, TimePoint> gone_since_;  // nodes that are lost or away
  node::Epoch settled_in_;                  // nothing was left to do under this map
  node::Epoch tried_in_;                    // a job has run under this map
  TimePoint try_again_at_;
  Duration drain_pause_ = kDrainPeriod;
  std::string waits_for_;
  std::unique_ptr<RepairJob> job_;
  JobProgress last_;
};

}  // namespace elastripe::jobs
