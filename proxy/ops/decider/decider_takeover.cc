// The first map of a decider: out of what the nodes have, beside others who may be at work.
#include <algorithm>
#include <tuple>

#include "proxy/base/hash.h"
#include "proxy/base/log.h"
#include "proxy/cluster/takeover.h"
#include "proxy/ops/decider/decider_impl.h"
#include "proxy/ops/decider/decider_status.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

using node::ClusterMap;

namespace {

// Incarnations are random, so this is too; and two proxies that form a cluster out of the same
// processes at the same time agree on it.
uint64_t cluster_id_of(const std::deque<Peer>& peers) {
  std::string incarnations;
  node::Writer writer(incarnations);
  for (const Peer& peer : peers) writer.u64(peer.report.incarnation);
  return hash64(incarnations) | 1;
}

}  // namespace

// The operator vouches for nodes that are gone, and can not know which ones will not answer just
// now: each has as long as a stalled node has. False: some have not had it yet.
bool Decider::Impl::vouch_for_silent() {
  const auto is_silent = [](const Peer& peer) { return peer.report.verdict == Verdict::kSilent; };
  const Duration patience = settings_.suspect_after + settings_.lease;
  for (const Peer& peer : peers_) {
    if (is_silent(peer) && !peer.is_vouched_dead() && !peer.is_silent(patience)) {
      wait_because("silent nodes may answer yet, before they are given up");
      return false;
    }
  }
  for (Peer& peer : peers_) {
    if (is_silent(peer)) peer.vouch_gone();
  }
  return true;
}

// The first map of this decider, out of what the nodes have.
Result<ClusterMap> Decider::Impl::first_choice(MapRequest known) {
  // What a node tells of its map is true, whatever its build can do.
  required_ = {};
  is_unfit_ = false;
  known.reports = request().reports;
  for (const Peer& peer : peers_) known.maps.push_back(peer.found);
  const MapPtr& own = ops_.map.last_served();
  const auto strays = find_strays(membership_, known.reports, known.maps, own);
  if (!strays) return fail(strays.error());
  for (const NodeId id : *strays) {
    set_aside(id);
    known.reports[id] = peers_[id].report;
    known.maps[id] = nullptr;
  }
  const bool is_other_cluster = own != nullptr && std::ranges::any_of(known.maps, [&](auto& map) {
                                  return map != nullptr && map->cluster_id != own->cluster_id;
                                });
  if (is_other_cluster) {
    is_unfit_ = true;
    return fail(ErrorCode::kUnavailable, kOtherCluster);
  }
  auto found = choose_base(known.reports, known.maps, own, known.give_up_silent);
  if (!found) return fail(found.error());
  // Who was taken for dead or silent by other times, or rules, than the cluster's is asked again.
  if (*found != nullptr && follow_cluster(settings_, **found)) {
    if (settings_.force_epoch) {
      for (Peer& peer : peers_) peer.word = Word::kNone;
    }
    look_again();
    return fail(ErrorCode::kUnavailable, "nodes are asked again, by the times of the cluster");
  }
  for (const Peer& peer : peers_) {
    above_number_ = std::max(above_number_, peer.report.epoch.number);
  }
  known.above_number = above_number_;
  const MapPtr& base = base_ = *found;
  const bool forms = base == nullptr;
  if (forms && settings_.joins) {
    return fail(ErrorCode::kUnavailable, "no node has a map, and this proxy only joins a cluster");
  }
  required_ = forms ? node::CapabilitySet() : base->capabilities;
  is_unfit_ = !settings_.capabilities.has_all(required_);
  for (size_t id = 0; id < peers_.size(); ++id) look_at_capabilities(id);
  const std::vector<Verdict> verdicts = this->verdicts();
  for (size_t id = 0; id < verdicts.size(); ++id) known.reports[id].verdict = verdicts[id];
  if (!forms && !peers_quorum()) {
    return fail(ErrorCode::kUnavailable,
                "answers from a majority of the nodes that may be alive are needed");
  }
  // By the ring that the map will say, or nothing would be where it belongs.
  node::CapabilitySet uses = forms ? settings_.capabilities : base->capabilities;
  for (const NodeReport& report : known.reports) {
    if (forms) uses = uses.common_with(report.capabilities.value_or(node::CapabilitySet()));
  }
  const Ring& ring = members_->ring(uses);
  auto next = forms ? first_map(membership_, ring, known, cluster_id_of(peers_))
                    : next_map(*base, membership_, ring, known);
  // What another decider has synced since the nodes were asked, nobody has told: they do so once
  // they have a map of ours, which no longer lets it go on.
  const bool may_be_false = next && !forms && !known.give_up_silent && loses_more(*base, *next);
  if (may_be_false && next->base == base->epoch && !mutant(Mutant::kTrustOldReports)) {
    next = same_map(*base, membership_, known);
  }
  unserved_.clear();
  if (next && !forms) {
    note_unserved(known, *base, *next);
    note_left_out(*base);
  }
  return next;
}

// A map that not all its members had when they were asked was never in use, and what was made of it
// relies on that: of the base, and of maps after it that are not built upon. But its decider may be
// alive, and just then have had it installed on the others. So those who have it get our map last:
// once one of those who were behind has taken ours, the map is past. If that is refused, nobody has
// forgotten for ours what was committed under it.
void Decider::Impl::note_unserved(const MapRequest& known, const ClusterMap& base,
                                  const ClusterMap& next) {
  for (const MapPtr& map : known.maps) {
    if (map == nullptr || map->epoch.number < base.epoch.number) continue;
    const auto known_as = std::ranges::find(unserved_, map->epoch, &Unserved::epoch);
    if (known_as != unserved_.end()) continue;
    Unserved& noted = unserved_.emplace_back(map->epoch);
    for (size_t id = 0; id < map->nodes.size() && id < next.nodes.size(); ++id) {
      const NodeReport& report = known.reports[id];
      const bool is_live = map->nodes[id].state == node::NodeState::kUp &&
                           report.verdict == Verdict::kAnswers &&
                           report.incarnation == map->nodes[id].incarnation &&
                           next.nodes[id].state == node::NodeState::kUp &&
                           map->nodes[id].incarnation == next.nodes[id].incarnation;
      if (!is_live) continue;
      const node::Epoch& has = report.epoch;
      if (has.number < map->epoch.number) noted.behind.insert(id);
      if (has == map->epoch) noted.holders.insert(id);
    }
  }
  std::erase_if(unserved_, [](const Unserved& map) { return map.behind.empty(); });
}

// Leases under a map are granted when those of whom it leaves out are over (rule 4). So a lease
// under it proves that, and nobody has to wait again for a machine that is long gone.
void Decider::Impl::note_left_out(const ClusterMap& base) {
  const bool is_granted = std::ranges::any_of(peers_, [&](const Peer& peer) {
    return peer.report.verdict == Verdict::kAnswers && peer.leased == base.epoch;
  });
  for (const node::NodeInfo& node : base.nodes) {
    const bool is_out = is_granted && node.state != node::NodeState::kUp;
    if (is_out && node.id < peers_.size()) peers_[node.id].may_hold_foreign_lease = false;
  }
}

bool Decider::Impl::has_proved_unserved(const Unserved& map) const {
  return std::ranges::any_of(map.behind, [&](size_t id) {
    const NodeReport& report = peers_[id].report;
    return report.epoch == map_->epoch && report.incarnation == map_->nodes[id].incarnation;
  });
}

bool Decider::Impl::may_install(size_t id) const {
  return std::ranges::none_of(unserved_,
                              [&](const Unserved& map) { return map.holders.contains(id); });
}

// A map that is not ours and not older: another decider is at work.
void Decider::Impl::check_foreign(const node::Epoch& epoch) {
  if (over_ || map_ == nullptr) return;
  if (epoch.number >= map_->epoch.number && epoch != map_->epoch) yield_to(epoch);
}

// All who meet agree on it.
bool Decider::Impl::comes_before(const node::Epoch& other) const {
  return std::tie(made_.number, made_.decider) > std::tie(other.number, other.decider);
}

// Whether a decider that has followed, and has no map, finds a map that it does not know from then.
bool Decider::Impl::may_give_way_to(const ClusterMap& found) const {
  if (!settings_.gives_way || ever_served_ || map_ != nullptr) return false;
  if (found.epoch.decider == decider_id_ || !last_.may_give_way_to(found)) return false;
  uint64_t cluster = inherited_cluster_;
  if (cluster == 0) {
    // It has just started. One node alone does not tell which cluster is ours.
    if (!has_asked_all()) return false;
    const MapPtr newest = newest_of_cluster(maps_found(), configured_, membership_.partitions);
    cluster = newest == nullptr ? 0 : newest->cluster_id;
  }
  return found.cluster_id == cluster &&
         found.epoch.number >= std::max(made_.number, inherited_number_ + 1);
}

// Whether the map is of another decider that began in the same moment, and comes before it; or, if
// it has made none yet, was faster. One under which a node has a lease is of a decider that has
// taken over: this one may wait in vain for nodes that the other one need not wait for.
bool Decider::Impl::is_late_for(const ClusterMap& found, bool is_decided) const {
  if (made_.number != 0) return !comes_before(found.epoch);
  // Who has just started does not know which maps were there before, nor whether the other one has.
  return is_decided && inherited_cluster_ != 0;
}

void Decider::Impl::depose(const node::Epoch& by) {
  over_ = deposed_ = true;
  reason_ = fmt::format("deposed by proxy {:08x} at epoch {}", by.decider, by.number);
  log_membership(LogLevel::kWarning, LogFields().add("event", "deposed").add("reason", reason_));
  if (!settings_.hands_over) ops_.map.stop_serving(reason_);
}

void Decider::Impl::yield_to(const node::Epoch& epoch) {
  above_number_ = std::max(above_number_, epoch.number);
  // One of two that take over together has to go on, or nobody decides.
  if (ever_served_ || (settings_.gives_way && !comes_before(epoch))) return depose(epoch);
  // Both were starting.
  log_membership(LogLevel::kInfo,
                 LogFields().add("event", "looks_again").add("epoch", map_->epoch.number));
  look_again();
}

}  // namespace elastripe::decider
