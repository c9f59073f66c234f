// What a decider hands over to the one after it, and what it takes over. It changes who is waited
// for and where records go; leases are waited for as ever.
#include <algorithm>
#include <utility>

#include "proxy/cluster/takeover.h"
#include "proxy/ops/decider/decider_events.h"
#include "proxy/ops/decider/decider_impl.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

// The map of this decider, or, before it has one, the newest that the nodes have.
MapPtr Decider::Impl::newest_map() const {
  if (map_ != nullptr) return map_;
  std::vector<MapPtr> maps;
  for (const Peer& peer : peers_) {
    maps.push_back(peer.report.verdict == Verdict::kAnswers ? peer.found : nullptr);
  }
  return newest_of_cluster(maps, configured_, membership_.partitions);
}

void Decider::Impl::vouch_for(size_t id) {
  const MapPtr newest = newest_map();
  const node::NodeInfo* member =
      newest == nullptr ? nullptr : newest->find_node(static_cast<NodeId>(id));
  peers_[id].vouched_dead = true;
  peers_[id].vouched_process = member == nullptr ? 0 : member->incarnation;
}

// Before the first map. The operator has vouched for one process: the newest map has to have just
// that one, and nobody may have answered in its place. If another decider has made that map since,
// it knows of an answer where it has the node as up.
void Decider::Impl::take_over_vouches() {
  if (inherited_.handover.declared_dead.empty() || mutant(Mutant::kForgetVouched)) return;
  const MapPtr newest = newest_map();
  if (newest == nullptr) return;
  for (const Handover::Dead& dead : inherited_.handover.declared_dead) {
    const node::NodeInfo* member = newest->find_node(dead.node);
    if (member == nullptr || member->is_removed() || dead.node >= peers_.size()) continue;
    Peer& peer = peers_[dead.node];
    const bool is_process = member->incarnation == dead.incarnation && dead.incarnation != 0;
    const bool has_answered =
        peer.report.verdict == Verdict::kAnswers || peer.report.incarnation != 0 ||
        (newest->epoch.decider != inherited_.decider && member->state == node::NodeState::kUp);
    if (!is_process || has_answered || peer.vouched_dead) continue;
    log_membership(LogLevel::kWarning, LogFields()
                                           .add("event", "declared_dead")
                                           .add("node", member->name)
                                           .add("by", "the decider before"));
    peer.vouched_dead = true;
    peer.vouched_process = dead.incarnation;
  }
}

// A process that answers is not dead, whoever has vouched for that; and if it is new here, what the
// decider before knew of its room is taken over.
void Decider::Impl::meet_process(Peer& peer, bool is_new) {
  const uint64_t incarnation = peer.report.incarnation;
  std::erase_if(inherited_.handover.declared_dead,
                [&](const Handover::Dead& dead) { return dead.incarnation == incarnation; });
  if (!is_new) return;
  for (const Handover::RoomOf& known : inherited_.handover.rooms) {
    if (known.incarnation != incarnation || incarnation == 0) continue;
    peer.room.take_over(known.room, known.wait, inherited_.told_at + known.try_in, now());
  }
}

// Objects were counted by another one: they are shown, but the operator accepts no loss by them.
void Decider::Impl::take_over_counts() {
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
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    const auto node = static_cast<NodeId>(id);
    if (peer.vouched_dead && peer.vouched_process != 0 && !is_removed(id)) {
      all.declared_dead.push_back({.node = node, .incarnation = peer.vouched_process});
    }
    if (!peer.room.is_at_rest() && peer.report.incarnation != 0) {
      all.rooms.push_back({.node = node,
                           .incarnation = peer.report.incarnation,
                           .room = peer.room.room(),
                           .wait = duration_cast<milliseconds>(peer.room.wait()),
                           .try_in = duration_cast<milliseconds>(peer.room.try_in(now()))});
    }
  }
  hand_on(all);
  // Those that no map has as lost yet hold the next one up; those without any room come first.
  const auto is_lost = [&](const Handover::Dead& dead) {
    const node::NodeInfo* member = map_ == nullptr ? nullptr : map_->find_node(dead.node);
    return member != nullptr && member->state == node::NodeState::kLost;
  };
  std::ranges::sort(all.declared_dead, std::less(), [&](const Handover::Dead& dead) {
    return std::pair(is_lost(dead), dead.node);
  });
  std::ranges::sort(all.rooms, std::less(), [](const Handover::RoomOf& known) {
    return std::pair(-static_cast<int>(known.room), known.node);
  });
  return all;
}

// What it was handed over and has not come to use yet.
void Decider::Impl::hand_on(Handover& all) const {
  const Handover& from = inherited_.handover;
  for (const Handover::Dead& dead : from.declared_dead) {
    // With a map it has decided for whom that is true.
    if (map_ == nullptr && std::ranges::find(all.declared_dead, dead) == all.declared_dead.end()) {
      all.declared_dead.push_back(dead);
    }
  }
  for (const Handover::RoomOf& known : from.rooms) {
    const bool is_met = std::ranges::any_of(
        peers_, [&](const Peer& peer) { return peer.report.incarnation == known.incarnation; });
    if (is_met) continue;
    all.rooms.push_back(known);
    const Duration left = inherited_.told_at + known.try_in - now();
    all.rooms.back().try_in = std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left),
                                       std::chrono::milliseconds(0));
  }
}

}  // namespace elastripe::decider
