#include "proxy/ops/jobs/repairer.h"

#include <algorithm>

#include "proxy/base/log.h"
#include "proxy/ops/jobs/job_events.h"

namespace elastripe::jobs {

namespace {

using node::NodeState;

constexpr const char* kNothing = "the nodes change";

bool is_gone(const node::NodeInfo& node) {
  return node.incarnation != 0 &&
         (node.state == NodeState::kLost || node.state == NodeState::kAway);
}

}  // namespace

Task<void> Repairer::run() {
  if (!settings_.is_automatic) co_return;
  while (co_await ops_.clock.sleep_for(kLookPeriod)) {
    const MapPtr map = ops_.map.current();
    if (map == nullptr) continue;
    note_nodes(*map);
    waits_for_ = waits_for(*map);
    if (waits_for_.empty()) co_await repair(map);
  }
}

void Repairer::note_nodes(const node::ClusterMap& map) {
  for (const node::NodeInfo& node : map.nodes) {
    if (is_gone(node)) {
      gone_since_.try_emplace(node.id, ops_.clock.now());
    } else {
      gone_since_.erase(node.id);
    }
  }
}

std::string Repairer::waits_for(const node::ClusterMap& map) const {
  const TimePoint now = ops_.clock.now();
  if (map.epoch == tried_in_ && now < try_again_at_) {
    return map.epoch == settled_in_ ? kNothing : "the nodes change, or some time passes";
  }
  if (!map.capabilities.has(node::Capability::kMovedShards)) return "older nodes to be upgraded";
  for (const auto& [id, since] : gone_since_) {
    if (now - since < settings_.after) {
      return fmt::format("node {} to come back", node_name(map, id));
    }
  }
  return {};
}

Task<void> Repairer::repair(MapPtr map) {
  // All that are gone now have been for long enough.
  job_ = std::make_unique<RepairJob>(
      ops_, RepairJobSpec{.job = {.rate = settings_.rate, .parallel = settings_.parallel},
                          .gives_up_away = true});
  const LoggedJob logged{.kind = "repair"};
  log_info("{}", started_line(logged, map));
  co_await job_->run();
  last_ = job_->progress();
  job_.reset();
  const JobCounts& counts = last_.counts;
  log_info("{}", ended_line(logged, ops_.map.current(), last_));
  if (counts.done > 0) on_repaired_();
  const MapPtr now = ops_.map.current();
  const bool is_over = now == nullptr || now->epoch != map->epoch;
  if (is_over) co_return;
  // What a silent node has is not there for anybody, and may not come back.
  const bool is_any_silent = std::ranges::find(map->nodes, NodeState::kSuspect,
                                               &node::NodeInfo::state) != map->nodes.end();
  const bool is_settled =
      !is_any_silent && last_.state == JobState::kDone && counts.refused + counts.failed == 0;
  settled_in_ = is_settled ? map->epoch : node::Epoch{};
  const node::Epoch tried_before = std::exchange(tried_in_, map->epoch);
  // What can not be restored now must not keep the nodes busy: a tenth of the time at most.
  const bool is_any_draining = std::ranges::find(map->nodes, node::NodeRole::kDraining,
                                                 &node::NodeInfo::role) != map->nodes.end();
  if (is_any_draining && is_settled) {
    const bool is_quiet = counts.done == 0 && tried_before == map->epoch;
    drain_pause_ = is_quiet ? std::min(2 * drain_pause_, kLookAgainAfter) : kDrainPeriod;
    try_again_at_ = ops_.clock.now() + std::max(drain_pause_, 9 * last_.elapsed);
    co_return;
  }
  const Duration pause = std::max(kRetryAfter, 9 * last_.elapsed);
  try_again_at_ = ops_.clock.now() + (is_settled ? std::max(kLookAgainAfter, pause) : pause);
}

RepairStatus Repairer::status() const {
  return {.is_automatic = settings_.is_automatic,
          .is_running = job_ != nullptr,
          .waits_for = job_ != nullptr ? "" : waits_for_,
          .settled_in = settled_in_,
          .progress = job_ != nullptr ? job_->progress() : last_};
}

}  // namespace elastripe::jobs
