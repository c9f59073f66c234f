// Repairer: brings all objects back to their full redundancy, by a repair job after each change of
// the nodes. It needs to be told of nothing: a new map says that nodes went or came, and the job
// asks the nodes what they have.
//
// A node that has just gone is waited for, as it may come back: what it had is not made again
// meanwhile, and what others had is. If another one goes while a job runs, the job starts again,
// as other objects come first now.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxy/ops/jobs/repair_job.h"
#include "proxy/ops/jobs/repair_settings.h"

namespace elastripe::jobs {

struct RepairStatus {
  bool is_automatic = true;
  bool is_running = false;
  std::string waits_for;  // empty: for nothing
  // The newest map under which nothing lacked anything when all had been looked at; number 0: none.
  node::Epoch settled_in;
  node::Epoch now_in;    // the map that is served now; number 0: none
  JobProgress progress;  // of the job that runs, or of the last one
};

// On one thread, that of `ops`. Outlives its run().
class Repairer {
 public:
  static constexpr Duration kLookPeriod = std::chrono::seconds(1);
  // After a job that could not restore everything, or that failed.
  static constexpr Duration kRetryAfter = std::chrono::seconds(60);
  // Sooner where nodes lacked room, once they have it for an eighth of what is left; but not before
  // this.
  static constexpr uint64_t kShareToRetry = 8;
  static constexpr Duration kRetryWithRoomAfter = std::chrono::seconds(10);
  // While a node drains: what was being written when it began is still to come. Twice as long with
  // each job that finds nothing any more.
  static constexpr Duration kDrainPeriod = std::chrono::seconds(2);
  // Also if no node came or went: a write whose proxy died half-way may come to light late, and
  // lack what has gone since.
  static constexpr Duration kLookAgainAfter = std::chrono::minutes(10);
  // A job is not cut short more often than that, however many nodes go: each has to get somewhere.
  static constexpr Duration kRestartAfter = std::chrono::seconds(60);

  // `on_repaired` is called when a job has restored something.
  Repairer(
      OpsContext& ops, RepairSettings settings, std::function<void()> on_repaired = [] {})
      : ops_(ops), settings_(settings), on_repaired_(std::move(on_repaired)) {}

  // Until shutdown.
  Task<void> run();
  // Also of the job that runs; it is cancelled if repair is not automatic any more.
  void change_settings(const RepairSettings& settings);
  RepairStatus status() const;

 private:
  // What a job has to know of a node, and whether it has been dealt with.
  struct Seen {
    uint64_t incarnation = 0;
    bool is_there = false;  // neither lost nor away
    bool is_given_up = false;
    bool operator==(const Seen&) const = default;
  };
  using SeenNodes = std::map<NodeId, Seen>;

  void note_nodes(const node::ClusterMap& map);
  // The nodes that have not been gone for long enough.
  std::vector<NodeId> may_come_back() const;
  SeenNodes see(const node::ClusterMap& map) const;
  uint64_t room_of(const node::ClusterMap& map) const;
  bool has_room_come(const node::ClusterMap& map) const;
  bool is_only_waiting(const node::ClusterMap& map) const;
  // Empty: a job has to run now.
  std::string waits_for(const node::ClusterMap& map) const;
  // Since the job began, more nodes have lost what they had, or may have, or are given up.
  bool has_lost_more(const node::ClusterMap& map) const;
  Task<void> repair(MapPtr map);
  void plan_next(const node::ClusterMap& map, bool waits);

  OpsContext& ops_;
  RepairSettings settings_;
  const std::function<void()> on_repaired_;
  std::map<NodeId, TimePoint> gone_since_;  // nodes that are lost or away
  node::Epoch settled_in_;                  // nothing was left to do under this map
  SeenNodes begun_with_;                    // the job that runs, or ran last
  SeenNodes dealt_with_;                    // likewise, of the last that left nothing undone
  node::Epoch tried_in_;                    // a job has run under this map
  TimePoint look_again_at_;                 // though nothing has changed
  TimePoint may_restart_at_;
  TimePoint try_again_at_;
  TimePoint try_with_room_at_;               // or then, if there is...
  uint64_t room_to_try_again_ = UINT64_MAX;  // so much
  Duration drain_pause_ = kDrainPeriod;
  std::string waits_for_;
  std::unique_ptr<RepairJob> job_;
  JobProgress last_;
};

}  // namespace elastripe::jobs
