#include "proxy/ops/decider/last_decider.h"

namespace elastripe::decider {

void LastDecider::look(const node::MapPtr& followed, const ProxyCard* card) {
  expiry_clock_.look();
  if (followed == nullptr) return;
  const uint32_t decider = followed->epoch.decider;
  if (card == nullptr) {
    if (decider != last_.decider) last_ = {.decider = decider};
    return;
  }
  // The times in it are counted from when it came.
  if (decider == last_.decider && card->findings == last_.findings &&
      card->handover == last_.handover) {
    return;
  }
  last_ = {.decider = decider,
           .told_at = clock_.now(),
           .findings = card->findings,
           .handover = card->handover};
}

// Where it has not come so far as to serve a map of its own, it has what the decider before it
// told, and what it has learned beside.
void LastDecider::keep(uint32_t decider, const node::MapPtr& left, const DeciderFindings& findings,
                       const Handover& handover) {
  last_ = {.decider = left == nullptr ? decider : left->epoch.decider,
           .told_at = clock_.now(),
           .findings = findings,
           .handover = handover};
}

void LastDecider::give_way_to(const node::ClusterMap& map) {
  gave_way_in_ = map.cluster_id;
  gave_way_to_ = map.epoch.number;
}

bool LastDecider::may_give_way_to(const node::ClusterMap& map) const {
  return map.cluster_id != gave_way_in_ || map.epoch.number > gave_way_to_;
}

}  // namespace elastripe::decider
