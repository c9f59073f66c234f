// The inside of the decider, shared by its sources: decider.cc takes the turns, decider_calls.cc
// talks to the nodes, decider_quorum.cc counts them, decider_work.cc runs what follows from a
// served map and reports, decider_members.cc changes who the nodes are, decider_loss.cc gives up
// what is lost, decider_handover.cc has what the next decider is told.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/cluster/membership.h"
#include "proxy/ops/decider/decider.h"
#include "proxy/ops/decider/decider_events.h"
#include "proxy/ops/decider/decider_peer.h"
#include "proxy/ops/decider/pending_requests.h"
#include "proxy/ops/jobs/reclaim.h"
#include "proxy/ops/jobs/survey.h"

namespace elastripe::decider {

// A state machine: replies change what is known of a peer, and `advance` does what follows from it,
// at once. Decisions about the membership are taken at the heartbeat's turns only, so that changes
// that come together make one map. Whether a majority has been silent for too long is looked at
// there, too.
class Decider::Impl {
 public:
  Impl(OpsContext& ops, DeciderSettings settings, Election& election, LastDecider& last);

  Task<void> run();
  Task<void> join() { return scope_.join(); }
  ClusterStatus status() const;
  Handover handover() const;
  Task<Result<AcceptedLoss>> accept_loss(TimePoint deadline);
  Result<void> declare_dead(std::string_view name);
  Task<Result<void>> change_members(MemberChange change, TimePoint deadline);
  Task<Result<void>> change_settings(SettingsChange change, TimePoint deadline);
  void know_own(const DeciderSettings& settings) { membership_.own = cluster_settings(settings); }
  void know_proxies(ProxiesHave have) { proxies_have_ = std::move(have); }
  void survey_again() { survey_wanted_ = true; }
  void leave() { leaves_ = true; }
  uint32_t id() const { return decider_id_; }
  bool is_over() const { return over_; }
  bool has_majority_since(TimePoint since) const;
  Task<Result<void>> flush_all(uint32_t at, TimePoint deadline);

 private:
  // Maps that our first map takes for never served, until it is certain that they never will be.
  struct Unserved {
    node::Epoch epoch;
    std::set<size_t> behind;   // members that did not have it when they were asked
    std::set<size_t> holders;  // who had
  };

  // What heartbeats say that leave together.
  struct Pulse {
    node::DeciderSign sign = node::DeciderSign::kNone;
    bool grants = false;
  };

  // Turns.
  void turn();
  Task<bool> sleep_to_turn();
  void stop_without_majority();
  void start();
  bool vouch_for_silent();
  void decide();
  Result<node::ClusterMap> first_choice(MapRequest known);
  Result<node::ClusterMap> accepting_map();
  bool has_lost_partitions() const;
  void forget_lost_objects(const node::Epoch& in);
  void carry_acceptance(const MapPtr& from);
  void adopt(node::ClusterMap map);
  void stop_granting();
  void await_end_of_leases();
  std::string why_leases_are_awaited() const;
  void set_aside(size_t id);
  std::vector<node::MapPtr> maps_found() const;
  bool follow_members();
  void know_members(std::vector<node::NodeInfo> nodes);
  void warn_of_ignored(const std::vector<node::NodeInfo>& members) const;
  Result<void> may_change() const;
  Result<void> may_remove(const std::string& name) const;
  Result<node::ClusterMap> try_members(std::vector<node::NodeInfo> members,
                                       const MemberChange& change);
  bool is_removed(size_t id) const { return membership_.nodes[id].is_removed(); }
  const Ring& ring() const { return members_->ring(map_->capabilities); }
  void send_frames();
  void tell_removed(size_t id);
  void look_at_flush_time();
  bool wants_flush() const;
  void carry_flushes();
  void note_flushed();
  void answer_served();
  Result<std::optional<node::ClusterMap>> map_with(const MemberChange& change);
  Result<std::optional<node::ClusterMap>> map_with(const SettingsChange& change);
  Task<Result<void>> have_served(std::optional<node::ClusterMap> next, TimePoint deadline);
  void note_free_bytes();
  void watch_rooms();
  bool wants_homes(const MapRequest& known) const;
  bool wants_away(const MapRequest& known) const;
  bool is_blocked_by_lease() const;
  bool is_false_loss(const node::ClusterMap& next) const;
  MapRequest request() const;
  std::vector<Verdict> verdicts() const;
  Verdict own_verdict(size_t id) const;

  std::string reason_of(const NodeChange& change) const;
  void log_changes(const node::ClusterMap* before) const;

  // Between turns.
  void advance();
  bool is_installed() const;
  void begin_grants();
  bool enough_leases() const;
  Duration longest_lease() const;
  bool may_grant() const;
  size_t count_gone(const std::vector<Verdict>& verdicts) const;
  bool has_asked_all() const;
  bool peers_quorum() const;
  bool knows_all_peers() const;
  std::string whom_it_awaits() const;
  bool is_member(size_t id) const;
  void check_foreign(const node::Epoch& epoch);
  bool comes_before(const node::Epoch& other) const;
  bool may_give_way_to(const node::ClusterMap& found) const;
  bool is_late_for(const node::ClusterMap& found, bool is_decided) const;
  void depose(const node::Epoch& by);
  void yield_to(const node::Epoch& epoch);
  void look_again();
  bool may_install(size_t id) const;
  bool has_proved_unserved(const Unserved& map) const;
  void note_left_out(const node::ClusterMap& base);
  void note_unserved(const MapRequest& known, const node::ClusterMap& base,
                     const node::ClusterMap& next);
  void wait_because(std::string reason);
  void wait_because(const Error& error);

  // From the decider before, to the one after.
  void take_over_counts();
  void meet_process(Peer& peer);
  void hand_on(Handover& all) const;
  // For good, and found by a survey of this decider: another one's may be of another moment, of
  // which the operator who accepts the loss was not told.
  uint64_t lost_objects() const { return has_surveyed_ ? surveyed_.lost : 0; }

  // Calls; each is a flow of scope_.
  Task<void> hello(size_t id);
  Task<void> install(size_t id, MapPtr map);
  Task<void> heartbeat(size_t id, MapPtr map, Pulse pulse);
  void heard(size_t id, TimePoint sent, const Result<NodeReply>& reply);
  void meet(size_t id);
  Buffer changes_for(const Peer& peer);
  void look_at_capabilities(size_t id);
  void send_heartbeat(size_t id, const Pulse& pulse);
  node::DeciderSign sign() const;
  Pulse pulse() const { return {.sign = sign(), .grants = granting_ && may_grant()}; }

  // Work that follows from maps.
  bool is_synced(uint32_t partition) const;
  bool is_short(uint32_t partition) const;
  bool all_synced() const;
  void start_work();
  void start_sync();
  void start_reclaim();
  Task<void> run_sync(MapPtr map);
  void start_survey();
  Task<void> run_survey(MapPtr map, bool forgets);
  Task<void> run_reclaim(MapPtr map, std::vector<bool> synced);

  TimePoint now() const { return ops_.clock.now(); }

  OpsContext& ops_;
  Election& election_;
  LastDecider& last_;
  const Inherited inherited_;
  DeciderSettings settings_;  // its times are those of the newest map
  const std::vector<node::NodeInfo> configured_;
  MembershipSettings membership_;
  MembersPtr members_;           // those of membership_, as all threads know them
  std::deque<Peer> peers_;       // by node id
  std::set<uint64_t> followed_;  // maps, by hash, whose members were asked since we looked
  uint64_t peers_version_ = 0;   // one more when ids have got another meaning
  const uint32_t decider_id_;
  Scope scope_;

  bool over_ = false;  // shut down or deposed
  bool deposed_ = false;
  bool leaves_ = false;
  bool is_unfit_ = false;     // too old for what it found, or by another file: others have to
  std::string reason_;        // why it waits; empty if it does not
  bool awaits_told_ = false;  // a map is wanted, and what all nodes have is not known yet
  TimePoint last_turn_;
  uint64_t inherited_cluster_ = 0;  // of the map that it found served, from a decider before it
  uint32_t inherited_number_ = 0;   // likewise
  node::Epoch made_;                // the newest that it made, in use or given up; number 0: none
  TimePoint former_until_;          // till then others may serve by the map before, if map_ is not
  TimePoint start_after_;           // after losing a race with another starting decider
  int races_ = 0;                   // so many, at most 16
  uint32_t above_number_ = 0;       // of any map seen
  bool awaits_last_copy_ = false;   // of a silent node: only then can it be given up

  // The newest map that this decider made; null until it has made one.
  MapPtr map_;
  MapPtr base_;  // what its first map is made of; null: of nothing
  Buffer encoded_map_;
  MapPtr former_;                       // the one that it made before
  std::map<uint64_t, Buffer> changes_;  // to map_, by the hash of what they are of; empty: none
  node::CapabilitySet required_;        // of members: what the newest map that is known of uses
  std::vector<Unserved> unserved_;
  bool installed_ = false;  // on every survivor
  bool granting_ = false;   // leases under map_
  bool serving_ = false;
  bool ever_served_ = false;
  TimePoint grants_began_;
  TimePoint served_at_;                         // since then, map_ is
  std::optional<uint64_t> served_flush_floor_;  // of the map that was served last
  std::optional<TimePoint> took_over_;  // when all survivors first had a map of this decider

  PendingRequests requests_;
  ProxiesHave proxies_have_;
  bool flush_is_due_ = false;  // the pending one

  std::optional<TimePoint> refused_at_;  // the first refusal for lack of room under map_

  bool sync_running_ = false;
  bool sync_stop_ = false;
  node::Epoch sync_done_;
  TimePoint sync_after_;
  TimePoint sync_ended_;
  std::string sync_failure_;  // the last one, as logged
  TimePoint lost_again_after_ = TimePoint::max();
  mutable TimePoint look_at_moves_after_;
  uint32_t misplaced_ = 0;     // partitions of map_ that are not where the ring says
  bool survey_wanted_ = true;  // shards may have been lost since the last one
  bool survey_running_ = false;
  TimePoint survey_after_;
  TimePoint survey_due_ = TimePoint::max();  // wanted or not, for what is stored meanwhile
  node::Epoch forgets_in_;  // the operator has accepted the loss of objects as it is in this epoch
  jobs::SurveyReport surveyed_;
  uint32_t surveyed_in_ = 0;   // the number of its epoch; 0: nobody has counted
  bool has_surveyed_ = false;  // else the decider before has counted
  bool reclaim_running_ = false;
  TimePoint reclaim_after_;
  jobs::Reclaimer reclaimer_;
};

}  // namespace elastripe::decider
