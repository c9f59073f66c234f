// What a decider hands over to the one after it, and what it takes over. None of it counts for who
// has a majority, or for what is lost.
#include <algorithm>
#include <utility>

#include "proxy/cluster/takeover.h"
#include "proxy/ops/decider/decider_events.h"
#include "proxy/ops/decider/decider_impl.h"

namespace elastripe::decider {

// What the decider before knew of the room of a process is taken over when that is met first.
void Decider::Impl::meet_process(Peer& peer) {
  const uint64_t incarnation = peer.report.incarnation;
  for (const Handover::RoomOf& known : inherited_.handover.rooms) {
    if (known.incarnation != incarnation || incarnation == 0) continue;
    peer.room.take_over(known.room, known.wait, inherited_.told_at + known.try_in, now());
  }
}

// Objects were counted by another one: they are shown, but the operator accepts no loss by them.
void Decider::Impl::take_over_counts() {
  forgets_in_ = inherited_.handover.forgets_in;
  if (inherited_.handover.surveyed_in == 0) return;
  surveyed_.lacking = inherited_.findings.objects_lacking;
  surveyed_.lost = inherited_.findings.objects_lost;
  surveyed_.surviving = inherited_.findings.objects_surviving;
  surveyed_in_ = inherited_.handover.surveyed_in;
}

Handover Decider::Impl::handover() const {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  Handover all;
  all.surveyed_in = surveyed_in_;
  all.forgets_in = forgets_in_;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    const auto node = static_cast<NodeId>(id);
    if (!peer.room.is_at_rest() && peer.report.incarnation != 0) {
      all.rooms.push_back({.node = node,
                           .incarnation = peer.report.incarnation,
                           .room = peer.room.room(),
                           .wait = duration_cast<milliseconds>(peer.room.wait()),
                           .try_in = duration_cast<milliseconds>(peer.room.try_in(now()))});
    }
  }
  hand_on(all);
  // Those without any room come first.
  std::ranges::sort(all.rooms, std::less(), [](const Handover::RoomOf& known) {
    return std::pair(-static_cast<int>(known.room), known.node);
  });
  return all;
}

// What it was handed over and has not come to use yet.
void Decider::Impl::hand_on(Handover& all) const {
  const Handover& from = inherited_.handover;
  for (const Handover::RoomOf& known : from.rooms) {
    const bool is_met = std::ranges::any_of(
        peers_, [&](const Peer& peer) { return peer.report.incarnation == known.incarnation; });
    const bool is_gone =
        known.node < peers_.size() && peers_[known.node].report.incarnation != 0 && !is_met;
    if (is_met || is_gone) continue;
    all.rooms.push_back(known);
    const Duration left = inherited_.told_at + known.try_in - now();
    all.rooms.back().try_in = std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left),
                                       std::chrono::milliseconds(0));
  }
}

}  // namespace elastripe::decider
