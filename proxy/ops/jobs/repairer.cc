#include "proxy/ops/jobs/repairer.h"

#include <algorithm>

#include "proxy/async/scope.h"
#include "proxy/base/log.h"
#include "proxy/ops/jobs/job_events.h"

namespace elastripe::jobs {

namespace {

using node::NodeState;

constexpr const char* kNothing = "the nodes change";
constexpr const char* kAnother = "the proxy that decides, which repairs";
constexpr const char* kSomething = "the nodes change or have more room, or some time passes";

bool is_gone(const node::NodeInfo& node) {
  return node.incarnation != 0 &&
         (node.state == NodeState::kLost || node.state == NodeState::kAway);
}

bool is_any_draining(const node::ClusterMap& map) {
  return std::ranges::find(map.nodes, node::NodeRole::kDraining, &node::NodeInfo::role) !=
         map.nodes.end();
}

}  // namespace

Task<void> Repairer::run() {
  Scope jobs;
  while (co_await ops_.clock.sleep_for(kLookPeriod)) {
    const MapPtr map = ops_.map.current();
    if (map == nullptr) continue;
    note_nodes(*map);
    const bool is_ours = ops_.map.works_in_background();
    if (job_ != nullptr) {
      if (!is_ours) job_->cancel();
      if (ops_.clock.now() >= may_restart_at_ && has_lost_more(*map)) {
        job_->cancel();
        may_restart_at_ = ops_.clock.now() + kRestartAfter;
      }
      continue;
    }
    if (!settings_.is_automatic) continue;
    waits_for_ = is_ours ? waits_for(*map) : kAnother;
    if (waits_for_.empty()) jobs.spawn(repair(map));
  }
  co_await jobs.join();
}

void Repairer::change_settings(const RepairSettings& settings) {
  settings_ = settings;
  if (!settings_.is_automatic) waits_for_.clear();
  if (job_ == nullptr) return;
  job_->set_pace(settings_.rate, settings_.parallel);
  if (!settings_.is_automatic) job_->cancel();
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

std::vector<NodeId> Repairer::may_come_back() const {
  std::vector<NodeId> nodes;
  for (const auto& [id, since] : gone_since_) {
    if (ops_.clock.now() - since < settings_.after) nodes.push_back(id);
  }
  return nodes;
}

Repairer::SeenNodes Repairer::see(const node::ClusterMap& map) const {
  const std::vector<NodeId> waited_for = may_come_back();
  SeenNodes seen;
  for (const node::NodeInfo& node : map.nodes) {
    const bool is_waited_for = std::ranges::find(waited_for, node.id) != waited_for.end();
    seen[node.id] = {.incarnation = node.incarnation,
                     .is_there = !is_gone(node),
                     .is_given_up = is_gone(node) && !is_waited_for};
  }
  return seen;
}

// What the nodes that may take shards can still take, together.
uint64_t Repairer::room_of(const node::ClusterMap& map) const {
  const NodeRoomsPtr rooms = ops_.map.rooms();
  uint64_t room = 0;
  for (const node::NodeInfo& node : map.nodes) {
    const uint64_t left = rooms->left_bytes(node.id);
    const bool is_known = left != UINT64_MAX;
    if (map.is_up(node.id) && node.role == node::NodeRole::kMember && is_known) room += left;
  }
  return room;
}

bool Repairer::has_room_come(const node::ClusterMap& map) const {
  return ops_.clock.now() >= try_with_room_at_ && room_of(map) >= room_to_try_again_;
}

// All that has changed since nothing was left to do is that nodes went which may come back.
bool Repairer::is_only_waiting(const node::ClusterMap& map) const {
  if (is_any_draining(map) || dealt_with_.empty()) return false;
  if (ops_.clock.now() >= look_again_at_) return false;
  return std::ranges::all_of(see(map), [&](const auto& entry) {
    const auto& [id, now] = entry;
    const auto before = dealt_with_.find(id);
    if (before == dealt_with_.end()) return false;
    return now == before->second || (gone_since_.contains(id) && !now.is_given_up);
  });
}

std::string Repairer::waits_for(const node::ClusterMap& map) const {
  if (!map.capabilities.has(node::Capability::kMovedShards)) return "older nodes to be upgraded";
  const std::vector<NodeId> waited_for = may_come_back();
  const bool rests =
      map.epoch == tried_in_ && ops_.clock.now() < try_again_at_ && !has_room_come(map);
  if (!waited_for.empty() && (rests || is_only_waiting(map))) {
    return fmt::format("node {} to come back", node_name(map, waited_for.front()));
  }
  if (!rests) return {};
  return map.epoch == settled_in_ ? kNothing : kSomething;
}

bool Repairer::has_lost_more(const node::ClusterMap& map) const {
  return std::ranges::any_of(see(map), [&](const auto& entry) {
    const auto& [id, now] = entry;
    const auto found = begun_with_.find(id);
    if (found == begun_with_.end()) return false;
    const Seen& before = found->second;
    const bool went = before.is_there && (!now.is_there || now.incarnation != before.incarnation);
    return went || (now.is_given_up && !before.is_given_up);
  });
}

Task<void> Repairer::repair(MapPtr map) {
  const std::vector<NodeId> waited_for = may_come_back();
  begun_with_ = see(*map);
  job_ = std::make_unique<RepairJob>(
      ops_, RepairJobSpec{.job = {.rate = settings_.rate, .parallel = settings_.parallel},
                          .given_up = {.away = true, .except = waited_for}});
  const LoggedJob logged{.kind = "repair"};
  log_info("{}", started_line(logged, map));
  co_await job_->run();
  last_ = job_->progress();
  job_.reset();
  log_info("{}", ended_line(logged, ops_.map.current(), last_));
  if (last_.counts.done > 0) on_repaired_();
  const MapPtr now = ops_.map.current();
  const bool is_over = now == nullptr || now->epoch != map->epoch;
  room_to_try_again_ = UINT64_MAX;
  if (!is_over) plan_next(*map, !waited_for.empty());
}

// After a job under `map`, which still holds; of what some nodes had it has made nothing again if
// it `waits` for these.
void Repairer::plan_next(const node::ClusterMap& map, bool waits) {
  const JobCounts& counts = last_.counts;
  // What a silent node has is not there for anybody, and may not come back.
  const bool is_any_silent =
      std::ranges::find(map.nodes, NodeState::kSuspect, &node::NodeInfo::state) != map.nodes.end();
  const bool is_done =
      !is_any_silent && last_.state == JobState::kDone && counts.refused + counts.failed == 0;
  if (is_done) {
    dealt_with_ = begun_with_;
    look_again_at_ = ops_.clock.now() + kLookAgainAfter;
  }
  const bool is_settled = is_done && !waits;
  settled_in_ = is_settled ? map.epoch : node::Epoch{};
  const node::Epoch tried_before = std::exchange(tried_in_, map.epoch);
  const TimePoint now = ops_.clock.now();
  const uint64_t planned = last_.planned.traffic.bytes_sent;
  const uint64_t left = planned - std::min(planned, last_.done.traffic.bytes_sent);
  const uint64_t room = room_of(map);
  const bool is_room_scarce = counts.refused + counts.failed > 0 && room < left;
  if (is_room_scarce) room_to_try_again_ = room + left / kShareToRetry;
  // Half of the time: most of such a job is waiting for room.
  try_with_room_at_ = now + std::max(kRetryWithRoomAfter, last_.elapsed);
  // What can not be restored now must not keep the nodes busy: a tenth of the time at most.
  const Duration rest = 9 * last_.elapsed;
  if (is_any_draining(map) && is_settled) {
    const bool is_quiet = counts.done == 0 && tried_before == map.epoch;
    drain_pause_ = is_quiet ? std::min(2 * drain_pause_, kLookAgainAfter) : kDrainPeriod;
    try_again_at_ = now + std::max(drain_pause_, rest);
    return;
  }
  const Duration pause = std::max(kRetryAfter, rest);
  try_again_at_ = now + (is_settled ? std::max(kLookAgainAfter, pause) : pause);
  for (const auto& [id, since] : gone_since_) {
    const bool is_given_up = begun_with_[id].is_given_up;
    if (!is_given_up) try_again_at_ = std::min(try_again_at_, since + settings_.after);
  }
}

RepairStatus Repairer::status() const {
  const MapPtr map = ops_.map.current();
  return {.is_automatic = settings_.is_automatic,
          .is_running = job_ != nullptr,
          .waits_for = job_ != nullptr ? "" : waits_for_,
          .settled_in = settled_in_,
          .now_in = map == nullptr ? node::Epoch{} : map->epoch,
          .progress = job_ != nullptr ? job_->progress() : last_};
}

}  // namespace elastripe::jobs
