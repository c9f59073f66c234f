#include "proxy/ops/decider/decider.h"

#include <algorithm>

#include "proxy/base/log.h"
#include "proxy/cluster/takeover.h"
#include "proxy/ops/decider/decider_impl.h"
#include "proxy/ops/decider/decider_status.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

using node::ClusterMap;

namespace {

constexpr size_t kHeartbeatsInFlight = 16;  // per node

}  // namespace

Decider::Impl::Impl(OpsContext& ops, DeciderSettings settings, Election& election,
                    LastDecider& last)
    : ops_(ops),
      election_(election),
      last_(last),
      inherited_(last.inherited()),
      settings_(std::move(settings)),
      configured_(configured_nodes(settings_)),
      membership_{.nodes = {},
                  .partitions = settings_.partitions,
                  .max_parities = static_cast<uint8_t>(
                      std::max<int>(settings_.max_parities, ops.pools.max_parities())),
                  .capabilities = settings_.capabilities,
                  .own = cluster_settings(settings_)},
      decider_id_(static_cast<uint32_t>(ops.random.next() >> 32 | 1)),
      reclaimer_(ops, last.expiry_clock()) {
  // Threads that serve by the map before find its nodes by these.
  const MembersPtr known = ops_.map.members();
  know_members(known == nullptr ? configured_ : merged_members(known->nodes, configured_));
  take_over_counts();
}

Task<void> Decider::Impl::run() {
  ops_.map.work_in_background(true);
  last_turn_ = now();
  const MapPtr& inherited = ops_.map.last_served();
  if (inherited != nullptr) follow_cluster(settings_, *inherited);
  await_end_of_leases();
  if (inherited != nullptr) {
    inherited_cluster_ = inherited->cluster_id;
    inherited_number_ = inherited->epoch.number;
  }
  for (size_t id = 0; id < peers_.size(); ++id) {
    const std::string& name = membership_.nodes[id].name;
    if (std::ranges::find(settings_.silent, name) != settings_.silent.end()) {
      peers_[id].fell_silent();
    }
  }
  ops_.map.have_told([this] { answer_served(); });
  while (!over_) {
    turn();
    if (over_) break;
    if (!co_await sleep_to_turn()) break;
  }
  over_ = true;
  sync_stop_ = true;
  ops_.map.have_told(nullptr);
  if (!deposed_) ops_.map.stop_serving("shutting down");
  requests_.fail_all(deposed_ ? reason_ : "shutting down");
  last_.keep(decider_id_, ops_.map.current(), status(), handover());
}

// A heartbeat may become shorter meanwhile, and be longer than somebody waits. However late it is,
// replies are read in between.
Task<bool> Decider::Impl::sleep_to_turn() {
  do {
    const TimePoint next = std::min(last_turn_ + settings_.heartbeat, now() + kLongestNap);
    if (!co_await ops_.clock.sleep_until(next)) co_return false;
    requests_.expire(now());
  } while (!over_ && now() < last_turn_ + settings_.heartbeat);
  co_return true;
}

void Decider::Impl::turn() {
  // A turn that comes late is our own fault: answers may lie unread, so it blames nobody.
  const Duration since_last = now() - last_turn_;
  const bool is_late = since_last > 3 * settings_.heartbeat;
  last_turn_ = now();
  for (Peer& peer : peers_) {
    peer.judge(is_late ? Duration::zero() : since_last, settings_.suspect_after);
  }
  watch_rooms();
  look_at_flush_time();
  if (map_ == nullptr) {
    start();
  } else {
    decide();
  }
  if (over_) return;
  advance();
  if (!is_late) stop_without_majority();
  election_.decide(serving_ ? map_ : nullptr, leaves_ || is_unfit_);
  if (!over_) send_frames();
  if (!over_) start_work();
  note_free_bytes();
  // Nodes refuse what is not of their map, so what was served before does no harm; but its leases
  // are over.
  if (!serving_ && now() >= former_until_ && ops_.map.current() != nullptr) {
    ops_.map.stop_serving(reason_.empty() ? "a newer map is not served yet" : reason_);
  }
}

void Decider::Impl::note_free_bytes() {
  ops_.map.expect_nodes(peers_.size());
  for (size_t id = 0; id < peers_.size(); ++id) {
    decider::note_free_bytes(*ops_.map.rooms(), static_cast<NodeId>(id), peers_[id]);
  }
}

// A node that refused a sync for lack of memory is no home of further partitions, or of none, until
// it is tried again (RoomWatch).
void Decider::Impl::watch_rooms() {
  const NodeRoomsPtr rooms = ops_.map.rooms();
  for (size_t id = 0; id < peers_.size(); ++id) {
    Peer& peer = peers_[id];
    const uint64_t more = rooms->take_refused_sync(static_cast<NodeId>(id), /*as_source=*/false);
    const uint64_t own = rooms->take_refused_sync(static_cast<NodeId>(id), /*as_source=*/true);
    if (peer.report.verdict != Verdict::kAnswers) continue;
    const auto refuses = [&](uint64_t incarnation, Room room) {
      return incarnation != 0 && incarnation == peer.report.incarnation &&
             peer.room.refused(room, now());
    };
    if (refuses(own, Room::kNone) || refuses(more, Room::kForOwn)) {
      log_membership(LogLevel::kWarning,
                     LogFields()
                         .add("event", "no_room")
                         .add("node", membership_.nodes[id].name)
                         .add("for", peer.room.room() == Room::kNone ? "own" : "further"));
      if (!refused_at_) refused_at_ = now();
    } else if (peer.room.told(peer.free_bytes, peer.statistics.limit_bytes, now())) {
      log_membership(
          LogLevel::kInfo,
          LogFields().add("event", "room_again").add("node", membership_.nodes[id].name));
    }
  }
}

// A sync that is under way completes what has room, and finds who else has not; then one map does
// for all. Keys of the partitions that wait are waiting, so it does not get long.
bool Decider::Impl::wants_homes(const MapRequest& known) const {
  const bool has_waited = refused_at_ && now() >= *refused_at_ + settings_.suspect_after;
  if (!serving_ || (sync_running_ && !has_waited)) return false;
  if (needs_homes(*map_, ring(), known)) return true;
  // A look at all partitions: where nothing can move for want of room, not every time.
  if (misplaced_ == 0 || sync_running_ || now() < look_at_moves_after_) return false;
  if (needs_moves(*map_, ring(), known)) return true;
  if (all_synced()) look_at_moves_after_ = now() + std::chrono::seconds(1);
  return false;
}

// A machine that has vanished is not known to be dead. Nobody waits for its records any more then,
// and nobody shall wait for its shards. Most that are silent come back sooner, without this map.
bool Decider::Impl::wants_away(const MapRequest& known) const {
  constexpr int kPatience = 10;
  return serving_ && now() >= served_at_ + kPatience * settings_.suspect_after &&
         needs_away(*map_, known);
}

MapRequest Decider::Impl::request() const {
  const std::vector<Verdict> verdicts = this->verdicts();
  MapRequest request;
  request.decider = decider_id_;
  request.above_number = above_number_;
  if (proxies_have_ && !mutant(Mutant::kServeBeyond)) request.proxies_have = proxies_have_();
  request.was_served = serving_;
  if (flush_is_due_) request.flush = {.now = true, .at = 0};
  requests_.add_to(request.flush);
  for (size_t id = 0; id < peers_.size(); ++id) {
    request.reports.push_back(peers_[id].report);
    NodeReport& report = request.reports.back();
    report.room = peers_[id].room.room();
    report.verdict = verdicts[id];
    report.is_removed = is_removed(id);
  }
  return request;
}

void Decider::Impl::wait_because(std::string reason) {
  awaits_last_copy_ = false;
  if (reason != reason_ && !reason.empty()) {
    log_membership(LogLevel::kWarning, LogFields().add("event", "waits").add("reason", reason));
  }
  reason_ = std::move(reason);
  if (!serving_ && !reason_.empty() && ops_.map.current() == nullptr) {
    ops_.map.stop_serving(reason_);
  }
}

void Decider::Impl::wait_because(const Error& error) {
  wait_because(error.message);
  awaits_last_copy_ = error.code == ErrorCode::kLost;
}

// Before the first map: what do the nodes know?
void Decider::Impl::start() {
  if (now() < start_after_) return;
  for (size_t id = 0; id < peers_.size(); ++id) {
    if (!peers_[id].is_judged() && !is_removed(id)) return;
  }
  if (!knows_all_peers() || follow_members()) return;
  if (settings_.force_epoch && !vouch_for_silent()) return;
  auto next = first_choice(request());
  // What it goes by is not what is so. Another proxy may know better, and must not wait for it.
  if (!next && next.error().code == ErrorCode::kInvalid) is_unfit_ = true;
  if (!next) return wait_because(next.error());
  adopt(std::move(*next));
}

// With a map: does it still say what is so?
void Decider::Impl::decide() {
  const MapRequest now_known = request();
  awaits_told_ = false;
  if (!needs_map(*map_, membership_, now_known) && !wants_homes(now_known) && !wants_flush() &&
      !wants_away(now_known)) {
    wait_because(peers_quorum() ? why_leases_are_awaited()
                                : "a majority of the nodes that may be alive does not answer");
    return;
  }
  // The nodes that were behind may be gone now, and no other one is offered the map before them.
  if (!unserved_.empty()) return look_again();
  if (!peers_quorum()) {
    return wait_because("a majority of the nodes that may be alive does not answer");
  }
  awaits_told_ = !knows_all_peers();
  if (awaits_told_ || is_blocked_by_lease()) return;
  auto next = next_map(*map_, membership_, ring(), now_known);
  if (!next) return wait_because(next.error());
  if (is_false_loss(*next)) {
    awaits_told_ = sync_stop_ = true;
    return;
  }
  adopt(std::move(*next));
}

// A silent node may serve until its lease is over, declared dead or not. Meanwhile the old map goes
// on being served: it is true until then, and the node may come back.
bool Decider::Impl::is_blocked_by_lease() const {
  if (mutant(Mutant::kSkipLeaseWait)) return false;
  for (size_t id = 0; id < peers_.size(); ++id) {
    if (map_->is_up(static_cast<NodeId>(id)) && peers_[id].report.verdict == Verdict::kSilent &&
        now() < peers_[id].lease_until) {
      return true;
    }
  }
  return false;
}

// A sync that is under way may have completed a partition since the nodes last reported: its
// sources forget it then, and would be missed though the homes have it all. So a loss is declared
// only with no sync running, on reports from after it. A sync of another decider goes on until the
// nodes have our map: then they tell what they have as synced.
bool Decider::Impl::is_false_loss(const ClusterMap& next) const {
  if (!loses_more(*map_, next)) return false;
  if (sync_running_) return true;
  const bool trusts = mutant(Mutant::kTrustOldReports);
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    if (peer.report.verdict != Verdict::kAnswers) continue;
    if (peer.answered_sent < sync_ended_) return true;
    if (is_member(id) && peer.told_in != map_->epoch && !trusts) return true;
  }
  return false;
}

void Decider::Impl::adopt(ClusterMap map) {
  if (map_ == nullptr) {
    const bool forms =
        std::ranges::all_of(peers_, [](const Peer& peer) { return peer.report.epoch.number == 0; });
    log_membership(
        LogLevel::kInfo,
        LogFields().add("event", forms ? "forms" : "takes_over").add("epoch", map.epoch.number));
  }
  above_number_ = std::max(above_number_, map.epoch.number);
  std::string encoded;
  node::encode(map, encoded);
  encoded_map_ = Buffer::copy_of(encoded);
  made_ = map.epoch;
  const MapPtr before = std::exchange(map_, std::make_shared<const ClusterMap>(std::move(map)));
  if (before != nullptr) former_ = before;
  carry_acceptance(before == nullptr ? base_ : before);
  changes_.clear();
  required_ = map_->capabilities;
  stop_granting();
  follow_cluster(settings_, *map_);
  awaits_last_copy_ = awaits_told_ = false;
  survey_wanted_ = true;
  misplaced_ = count_misplaced(*map_, ring());
  sync_stop_ = true;  // what it does for the map before would only hold up the next one's
  refused_at_.reset();
  reason_.clear();
  log_changes(before.get());
  carry_flushes();
}

// The map before is served on, until its leases are over for certain: nodes end them as they get a
// map of ours.
void Decider::Impl::stop_granting() {
  if (serving_) await_end_of_leases();
  installed_ = granting_ = serving_ = false;
}

// Empty: they are not.
std::string Decider::Impl::why_leases_are_awaited() const {
  return installed_ && !granting_ ? "the leases of nodes that do not answer run out" : "";
}

void Decider::Impl::await_end_of_leases() {
  former_until_ = now() + settings_.lease + settings_.suspect_after;
}

// Another process took the address of one of our nodes: that node is gone, and this one is none of
// ours.
void Decider::Impl::set_aside(size_t id) {
  Peer& peer = peers_[id];
  if (!peer.is_stray) {
    log_membership(
        LogLevel::kWarning,
        LogFields().add("event", "other_cluster").add("node", membership_.nodes[id].name));
  }
  peer.belongs_elsewhere(now());
}

Result<void> Decider::Impl::declare_dead(std::string_view name) {
  if (over_) return fail(ErrorCode::kUnavailable, "{}", deposed_ ? reason_ : "shutting down");
  const auto named = std::ranges::find(membership_.nodes, name, &node::NodeInfo::name);
  if (named == membership_.nodes.end() || named->is_removed()) {
    return fail(ErrorCode::kNotFound, "no node is named {}", name);
  }
  const auto peer_id = static_cast<size_t>(named - membership_.nodes.begin());
  Peer& peer = peers_[peer_id];
  if (!peer.is_judged()) {
    return fail(ErrorCode::kUnavailable, "node {} was not asked yet; try again", name);
  }
  if (peer.report.verdict == Verdict::kAnswers) {
    return fail(ErrorCode::kConflict, "node {} answers: stop its process first", name);
  }
  const bool has_majority = peers_quorum();
  if (!has_majority && !has_asked_all()) {
    return fail(ErrorCode::kUnavailable,
                "other nodes may answer yet, and be a majority without node {}; try again", name);
  }
  log_membership(LogLevel::kWarning, LogFields().add("event", "declared_dead").add("node", name));
  peer.vouch_dead(has_majority ? Word::kSaid : Word::kForced);
  if (installed_ && map_->nodes[peer_id].state == node::NodeState::kLost) peer.is_left_out();
  return {};
}

void Decider::Impl::send_frames() {
  const Pulse pulse = this->pulse();
  for (size_t id = 0; id < peers_.size() && !over_; ++id) {
    Peer& peer = peers_[id];
    if (is_removed(id)) {
      tell_removed(id);
    } else if (!is_member(id) || !peer.is_known(decider_id_)) {
      if (!peer.greeting && now() >= peer.greet_after) scope_.spawn(hello(id));
    } else if (peer.report.epoch != map_->epoch) {
      if (!peer.installing && may_install(id)) scope_.spawn(install(id, map_));
    } else {
      send_heartbeat(id, pulse);
    }
  }
}

void Decider::Impl::send_heartbeat(size_t id, const Pulse& pulse) {
  if (peers_[id].heartbeats >= kHeartbeatsInFlight) return;
  const bool grants = pulse.grants && !peers_[id].is_silent(settings_.suspect_after);
  scope_.spawn(heartbeat(id, map_, {.sign = pulse.sign, .grants = grants}));
}

bool Decider::Impl::is_installed() const {
  size_t have = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    if (!map_->is_up(static_cast<NodeId>(id))) continue;
    const bool has_it = is_member(id) && peers_[id].report.epoch == map_->epoch;
    have += has_it;
    if (!has_it && !mutant(Mutant::kServeBeforeInstalled)) return false;
  }
  return have > 0;
}

// What follows from the replies so far: installed -> leases -> served (rule 2).
void Decider::Impl::advance() {
  if (over_ || map_ == nullptr) return;
  const auto are_past =
      std::erase_if(unserved_, [&](const Unserved& map) { return has_proved_unserved(map); });
  if (are_past > 0) send_frames();
  if (!installed_) {
    if (!is_installed()) return;
    installed_ = true;
    for (size_t id = 0; id < peers_.size(); ++id) {
      if (map_->nodes[id].state == node::NodeState::kLost) peers_[id].is_left_out();
    }
    if (!took_over_) took_over_ = now();
  }
  if (!granting_) {
    // A predecessor grants as long as a majority answers it, which ended when ours got the map; so
    // whoever it alone can reach serves two leases longer at most.
    bool foreign_leases = false;
    for (size_t id = 0; id < peers_.size(); ++id) {
      foreign_leases |= peers_[id].may_hold_foreign_lease && !is_removed(id);
    }
    if (foreign_leases && now() < *took_over_ + 2 * longest_lease() &&
        !mutant(Mutant::kSkipLeaseWait)) {
      if (reason_.empty()) wait_because(why_leases_are_awaited());
      return;
    }
    for (Peer& peer : peers_) peer.may_hold_foreign_lease = false;
    wait_because("");
    begin_grants();
    if (over_) return;
  }
  if (granting_ && !serving_ && enough_leases()) {
    serving_ = ever_served_ = true;
    log_membership(LogLevel::kInfo,
                   LogFields().add("event", "serves").add("epoch", map_->epoch.number));
    ops_.map.serve(map_);
    served_at_ = now();
    note_flushed();
    answer_served();
  }
}

// A map that is not served yet may be passed over by whoever takes over: nobody is told that what
// it says holds before that is certain. Without a map, that of the present one is served.
Task<Result<void>> Decider::Impl::have_served(std::optional<ClusterMap> next, TimePoint deadline) {
  if (!next && ops_.map.current() == map_) co_return Result<void>{};
  const bool is_new = next.has_value();
  if (is_new) adopt(std::move(*next));
  OneShot<Result<void>> answer;
  if (mutant(Mutant::kChangeUnserved)) {
    answer.set(Result<void>{});
  } else {
    requests_.add({.flush_at = {}, .deadline = deadline, .answer = &answer, .is_carried = true});
  }
  if (is_new) advance();
  if (is_new && !over_) send_frames();
  auto served = co_await answer;
  if (served) co_return served;
  co_return fail(served.error().code, "the {} is not served yet: {}",
                 is_new ? "change was made, and" : "map that says so", served.error().message);
}

// Last of all: who waits for an answer goes on at once. A map is kept back while threads of this
// proxy go by other settings.
void Decider::Impl::answer_served() {
  if (!over_ && serving_) requests_.served(/*is_followed=*/ops_.map.current() == map_);
}

// Those of a predecessor may be from before they got shorter.
Duration Decider::Impl::longest_lease() const {
  if (mutant(Mutant::kForgetLeases)) return settings_.lease;
  return std::max<Duration>(settings_.lease,
                            std::chrono::milliseconds(map_->settings.longest_lease_ms));
}

// A matter of time, and of all nodes: looked at once a turn.
void Decider::Impl::stop_without_majority() {
  if (over_ || !serving_ || now() - grants_began_ <= settings_.lease || may_grant()) return;
  serving_ = false;
  ops_.map.stop_serving("a majority of the nodes does not answer");
}

void Decider::Impl::begin_grants() {
  granting_ = true;
  grants_began_ = now();
  const MapPtr map = map_;
  const Pulse pulse = this->pulse();
  for (size_t id = 0; id < peers_.size() && !over_ && map_ == map; ++id) {
    if (is_member(id) && peers_[id].report.epoch == map->epoch) send_heartbeat(id, pulse);
  }
}

// Builds upon what others have done meanwhile. Who has taken over may have to wait for two leases
// before it serves, and would never get there if another one took over from it each time: so the
// pauses get longer.
void Decider::Impl::look_again() {
  map_ = nullptr;
  required_ = {};  // what the map uses that is built upon will tell
  is_unfit_ = false;
  unserved_.clear();
  awaits_last_copy_ = awaits_told_ = false;
  stop_granting();
  flush_is_due_ = false;
  took_over_.reset();
  followed_.clear();
  const Duration longest = std::min(4 * settings_.heartbeat * (int64_t{1} << races_),
                                    std::max(4 * settings_.heartbeat, 8 * settings_.lease));
  races_ = std::min(races_ + 1, 16);
  const auto pause = static_cast<uint64_t>(longest.count());
  start_after_ = now() + Duration(static_cast<int64_t>(ops_.random.next() % (pause + 1)));
  for (Peer& peer : peers_) peer.look_again();
  requests_.give_up_carried();
}

Decider::Decider(OpsContext& ops, DeciderSettings settings, Election& election, LastDecider& last)
    : impl_(std::make_unique<Impl>(ops, std::move(settings), election, last)) {}
Decider::~Decider() = default;
Task<void> Decider::run() { return impl_->run(); }
Task<void> Decider::join() { return impl_->join(); }
ClusterStatus Decider::status() const { return impl_->status(); }
Handover Decider::handover() const { return impl_->handover(); }
Task<Result<AcceptedLoss>> Decider::accept_loss(TimePoint deadline) {
  return impl_->accept_loss(deadline);
}
Task<Result<void>> Decider::change_members(MemberChange change, TimePoint deadline) {
  return impl_->change_members(std::move(change), deadline);
}
Result<void> Decider::declare_dead(std::string_view name) { return impl_->declare_dead(name); }
Task<Result<void>> Decider::change_settings(SettingsChange change, TimePoint deadline) {
  return impl_->change_settings(std::move(change), deadline);
}
void Decider::know_own(const DeciderSettings& settings) { impl_->know_own(settings); }
void Decider::know_proxies(ProxiesHave have) { impl_->know_proxies(std::move(have)); }
void Decider::survey_again() { impl_->survey_again(); }
void Decider::leave() { impl_->leave(); }
uint32_t Decider::id() const { return impl_->id(); }
bool Decider::is_over() const { return impl_->is_over(); }
bool Decider::has_majority_since(TimePoint since) const { return impl_->has_majority_since(since); }
Task<Result<void>> Decider::flush_all(uint32_t at, TimePoint deadline) {
  return impl_->flush_all(at, deadline);
}

}  // namespace elastripe::decider
