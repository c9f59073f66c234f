// What the operator accepts as lost: nothing else makes a LOST partition start again, or gives up a
// silent node that may have the last copy.
#include <algorithm>
#include <utility>

#include "proxy/base/log.h"
#include "proxy/ops/decider/decider_impl.h"

namespace elastripe::decider {

using node::ClusterMap;

namespace {

bool gives_up_nodes(const ClusterMap& before, const ClusterMap& next) {
  return std::ranges::any_of(before.nodes, [&](const node::NodeInfo& node) {
    return node.state == node::NodeState::kUp &&
           !(next.is_up(node.id) && next.nodes[node.id].incarnation == node.incarnation);
  });
}

}  // namespace

// In a map that is made at once, or not at all: an acceptance that waited could meet a loss that
// nobody has seen.
Task<Result<AcceptedLoss>> Decider::Impl::accept_loss(TimePoint deadline) {
  if (over_) co_return fail(ErrorCode::kUnavailable, "{}", deposed_ ? reason_ : "shutting down");
  AcceptedLoss accepted;
  accepted.objects = lost_objects();
  if (map_ != nullptr && serving_ && !has_lost_partitions() && accepted.objects > 0) {
    log_membership(LogLevel::kWarning,
                   LogFields().add("event", "loss_accepted").add("objects", accepted.objects));
    forget_lost_objects(map_->epoch);
    co_return accepted;
  }
  auto next = accepting_map();
  if (!next) co_return fail(next.error());
  for (size_t p = 0; p < next->partitions.size(); ++p) {
    const bool is_lost = next->partitions[p].lost;
    accepted.lost += is_lost;
    accepted.start_empty += map_ != nullptr && map_->partitions[p].lost && !is_lost;
  }
  log_membership(LogLevel::kWarning, LogFields()
                                         .add("event", "loss_accepted")
                                         .add("partitions_start_empty", accepted.start_empty)
                                         .add("partitions_lost", accepted.lost));
  // What this very map gives up may lose further objects, of which the operator was not told.
  if (map_ == nullptr || gives_up_nodes(*map_, *next)) accepted.objects = 0;
  if (accepted.objects > 0) forget_lost_objects(next->epoch);
  if (auto served = co_await have_served(std::move(*next), deadline); !served) {
    co_return fail(served.error());
  }
  co_return accepted;
}

bool Decider::Impl::has_lost_partitions() const {
  return map_ != nullptr && std::ranges::any_of(map_->partitions, &node::Partition::lost);
}

void Decider::Impl::forget_lost_objects(const node::Epoch& in) {
  survey_wanted_ = true;
  forgets_in_ = in;
}

// It stands as long as no further node is given up: the objects that are lost are the same then.
void Decider::Impl::carry_acceptance(const MapPtr& from) {
  if (from == nullptr || forgets_in_ != from->epoch) return;
  if (!gives_up_nodes(*from, *map_)) forgets_in_ = map_->epoch;
}

Result<ClusterMap> Decider::Impl::accepting_map() {
  if (!has_lost_partitions() && !awaits_last_copy_) {
    // A map that is not served yet may have been made by an acceptance, and be passed over.
    const bool is_known = map_ != nullptr && serving_;
    if (!is_known) return fail(ErrorCode::kUnavailable, "no map is served just now; try again");
    return fail(ErrorCode::kConflict, "nothing is lost");
  }
  if (!knows_all_peers() || !unserved_.empty()) {
    return fail(ErrorCode::kUnavailable, "some nodes have another map yet; try again");
  }
  MapRequest known = request();
  if (awaits_last_copy_) {
    const auto still =
        map_ == nullptr ? first_choice(known) : next_map(*map_, membership_, ring(), known);
    if (still || still.error().message != reason_) {
      return fail(ErrorCode::kUnavailable, "what is waited for has just changed; try again");
    }
  }
  known.give_up_silent = awaits_last_copy_;
  if (map_ == nullptr) return first_choice(std::move(known));
  known.accept_loss = true;
  if (!peers_quorum()) {
    return fail(ErrorCode::kUnavailable,
                "a majority of the nodes that may be alive does not answer");
  }
  if (is_blocked_by_lease()) {
    return fail(ErrorCode::kUnavailable,
                "the lease of a node that does not answer has to run out; try again");
  }
  auto next = next_map(*map_, membership_, ring(), known);
  if (next && is_false_loss(*next)) {
    sync_stop_ = true;
    return fail(ErrorCode::kUnavailable, "nodes have just died; try again");
  }
  return next;
}

}  // namespace elastripe::decider
