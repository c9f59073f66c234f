#include "proxy/ops/decider/follower.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "proxy/base/log.h"
#include "proxy/cluster/takeover.h"
#include "proxy/ops/decider/decider_events.h"
#include "proxy/ops/decider/decider_status.h"
#include "proxy/ops/decider/told_map.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

using node::ClusterMap;
using node::MapPtr;
using node::Status;

namespace {
constexpr size_t kCallsInFlight = 4;  // per node
constexpr size_t kAskedAtOnce = 4;    // nodes in a heartbeat, however many there are

constexpr char kNobodyDecides[] = "no proxy decides, or a majority of the nodes does not answer";
}  // namespace

Follower::Follower(OpsContext& ops, DeciderSettings settings, Election& election, bool starts)
    : ops_(ops),
      election_(election),
      settings_(std::move(settings)),
      configured_(configured_nodes(settings_)) {
  if (const MembersPtr known = ops_.map.members()) {
    know_members(known->nodes);
  } else {
    know_members(configured_);
  }
  election_.follow(starts, settings_.lease);
  map_ = ops_.map.current();
  serving_ = map_ != nullptr;
  if (const MapPtr& own = ops_.map.last_served()) {
    cluster_id_ = own->cluster_id;
    members_of_ = own->epoch;
  }
  known_ = map_;
  if (known_ != nullptr) follow_cluster(settings_, *known_);
}

Task<bool> Follower::run() {
  ops_.map.work_in_background(false);
  last_turn_ = looks_since_ = served_until_ = now();
  bool is_cancelled = false;
  while (!is_cancelled) {
    turn();
    const TimePoint end = may_begin_at();
    is_cancelled = !co_await sleep_to_turn(end);
    if (is_cancelled || now() < end) continue;
    // Another one may have begun since it looked last: of those who wait like this, the first is to
    // be the only one.
    ask_some();
    is_cancelled = !co_await ops_.clock.sleep_for(settings_.heartbeat / 10);
    look_for_decider();
    if (alone_since_ && !is_unfit()) break;
  }
  over_ = true;
  if (is_cancelled) ops_.map.stop_serving("shutting down");
  co_return !is_cancelled;
}

// A heartbeat may become shorter meanwhile. However late it is, replies are read in between.
Task<bool> Follower::sleep_to_turn(TimePoint end) {
  const auto next = [&] { return std::min(last_turn_ + settings_.heartbeat, end); };
  do {
    if (!co_await ops_.clock.sleep_until(std::min(next(), now() + kLongestNap))) co_return false;
  } while (now() < next());
  co_return true;
}

void Follower::turn() {
  const bool is_late = now() - last_turn_ > 3 * settings_.heartbeat;
  last_turn_ = now();
  if (is_late) looks_since_ = served_until_ = now();  // answers may lie unread
  look();
  look_for_decider();
  ask_some();
  note_free_bytes();
}

// Nobody is silent yet to a process that has just begun to look.
bool Follower::has_looked() const {
  if (now() >= looks_since_ + settings_.suspect_after) return true;
  return std::ranges::all_of(members_, [&](const node::NodeInfo& member) {
    return member.is_removed() || asked_[member.id].heard_at >= looks_since_;
  });
}

// A decider is heard of by its nodes every heartbeat, as it is by a majority.
void Follower::look_for_decider() {
  const TimePoint since = now() - settings_.suspect_after;
  bool is_there = false;
  for (const Asked& asked : asked_) {
    if (!asked.decider_at || asked.decider_of != cluster_id_) continue;
    is_there |= *asked.decider_at > since;
    last_sign_ = std::max(last_sign_, *asked.decider_at);
  }
  // Who may not begin stands for nothing.
  if (is_there || is_unfit()) election_.hear_decider(settings_.lease);
  if ((is_there && !mutant(Mutant::kBeginImpatiently)) || !has_looked()) {
    alone_since_.reset();
  } else if (!alone_since_) {
    alone_since_ = now();
  }
}

TimePoint Follower::may_begin_at() const {
  if (!alone_since_ || is_unfit()) return TimePoint::max();
  return election_.may_begin_at(
      {.since = *alone_since_, .has_majority = has_majority(), .last_sign = last_sign_});
}

bool Follower::has_majority() const {
  size_t refusing = 0, answering = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Verdict verdict = peers_[id].report.verdict;
    refusing += members_[id].is_removed() || verdict == Verdict::kRefuses;
    answering += !members_[id].is_removed() && verdict == Verdict::kAnswers;
  }
  return is_quorum(peers_.size(), refusing, answering);
}

// All, until it has seen how things are; then a few in their turn: so what nodes are asked grows
// with the number of proxies, and not with how many nodes each of them knows. Neighbours in the
// list, which may be of one rack and fail together, are not asked one after the other: while all
// that are asked are silent, nobody is heard of who decides.
void Follower::ask_some() {
  // A map is large, and most have the same: who knows one need not be told it by all.
  const bool is_first = known_ == nullptr && now() < looks_since_ + settings_.heartbeat;
  const bool all = !has_looked() && !is_first;
  const size_t count = all ? peers_.size() : std::min(peers_.size(), kAskedAtOnce);
  for (size_t i = 0; i < count; ++i) ask(order_[next_++ % order_.size()]);
}

void Follower::ask(size_t id) {
  Peer& peer = peers_[id];
  if (members_[id].is_removed() || asked_[id].calls >= kCallsInFlight) return;
  const bool has_known = known_ != nullptr && known_->epoch == peer.report.epoch;
  if (has_known || (peer.found != nullptr && peer.found->epoch == peer.report.epoch)) {
    scope_.spawn(beat(id, has_known ? known_ : peer.found));
  } else if (!peer.greeting && now() >= peer.greet_after) {
    scope_.spawn(greet(id));
  }
}

// The reply counts: it is of the process that is known there.
bool Follower::heard(size_t id, TimePoint sent, const Result<NodeReply>& reply) {
  Peer& peer = peers_[id];
  asked_[id].heard_at = now();
  if (!reply) {
    if (sent < peer.changed) return false;
    if (reply.error().code == ErrorCode::kUnavailable) {
      peer.refused(now());
    } else if (sent > peer.answered_sent) {
      peer.fell_silent();
    }
    asked_[id].decider_at.reset();
    return false;
  }
  if (reply->status() == Status::kNoLease || sent < peer.changed) return false;
  peer.answered(reply->header, sent, now());
  return reply->status() == Status::kOk;
}

void Follower::told(size_t id, const NodeReply& reply) {
  Asked& asked = asked_[id];
  const Peer& peer = peers_[id];
  const bool has_lease = peers_[id].told(reply.header, reply.args(), now());
  asked.leased = has_lease ? reply.header.epoch : node::Epoch{};
  if (has_lease) asked.leased_at = now();
  asked.decider_at.reset();
  if (peer.found == nullptr || !peer.decider_age) return;
  asked.decider_at = now() - *peer.decider_age;
  asked.decider_of = peer.found->cluster_id;
}

Task<void> Follower::greet(size_t id) {
  const uint64_t version = peers_version_;
  Peer& peer = peers_[id];
  peer.greeting = true;
  ++asked_[id].calls;
  const TimePoint sent = now();
  peer.greet_after = sent + 2 * settings_.heartbeat;
  const MapPtr known = std::exchange(peer.asks_for_whole, false) ? nullptr : known_;
  const node::HelloRequest request{
      .known_map = known ? known->epoch.map_hash : 0,
      .takes_changes = settings_.capabilities.has(node::Capability::kMapChanges)};
  const auto reply = co_await ops_.nodes.call(
      static_cast<NodeId>(id), Stamp{}, make_request(request), sent + settings_.suspect_after);
  if (over_ || version != peers_version_) co_return;
  peer.greeting = false;
  --asked_[id].calls;
  if (!heard(id, sent, reply)) co_return;
  const auto map = told_map(*reply, known, peers_);
  if (!map) {
    // It may have been changes. A whole map that can not be read is asked for in its time.
    peer.asks_for_whole = known != nullptr;
    if (!peer.asks_for_whole) co_return;
    peer.greet_after = {};
    co_return ask(id);
  }
  const MapPtr& found = *map;
  if (found && (known_ == nullptr || found->epoch.number >= known_->epoch.number)) known_ = found;
  peer.shows(reply->header, found, 0);
  told(id, *reply);
  look();
}

Task<void> Follower::beat(size_t id, MapPtr map) {
  const uint64_t version = peers_version_;
  ++asked_[id].calls;
  const TimePoint sent = now();
  const Stamp stamp{map->cluster_id, map->epoch, 0};
  // Without a stamp it grants nothing.
  node::HeartbeatRequest message;
  message.known_synced = peers_[id].count_synced();
  const auto reply = co_await ops_.nodes.call(static_cast<NodeId>(id), stamp, make_request(message),
                                              sent + settings_.suspect_after);
  if (over_ || version != peers_version_) co_return;
  --asked_[id].calls;
  Peer& peer = peers_[id];
  if (heard(id, sent, reply)) {
    peer.shows(reply->header, std::move(map), 0);
    told(id, *reply);
    look();
  } else if (reply && reply->status() == Status::kStaleEpoch) {
    peer.found = nullptr;
    peer.greet_after = {};
    ask(id);
  }
}

// As a proxy that starts does: the maps of the nodes lead to those that are members now.
void Follower::follow_members() {
  is_misled_ = false;
  // The first that answer may be none of ours.
  if (cluster_id_ == 0 && !has_looked()) return;
  const auto is_later = [&](const Peer& peer) {
    return peer.found != nullptr && peer.found->epoch.number > members_of_.number;
  };
  if (std::ranges::none_of(peers_, is_later)) return;
  std::vector<MapPtr> maps;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    const bool answers = peer.report.verdict == Verdict::kAnswers && peer.found != nullptr;
    const bool is_ours =
        answers && names_as_known(*peer.found, members_[id], peer.report.incarnation);
    maps.push_back(is_ours ? peer.found : nullptr);
  }
  const MapPtr newest = newest_of_cluster(maps, configured_, settings_.partitions);
  tell_strays(maps, newest);
  if (newest == nullptr || newest->epoch.number <= members_of_.number) return;
  const MapPtr& own = ops_.map.last_served();
  if (own != nullptr && newest->cluster_id != own->cluster_id) {
    if (!serving_) wait(kOtherCluster);
    return;
  }
  // It could neither serve nor decide, and whoever waits for it would wait in vain.
  is_misled_ = newest->partitions.size() != settings_.partitions;
  if (is_misled_) {
    return wait(fmt::format("the cluster has {} partitions, the configuration {}",
                            newest->partitions.size(), settings_.partitions));
  }
  cluster_id_ = newest->cluster_id;
  ops_.map.hear_of(newest);
  follow_cluster(settings_, *newest);
  members_of_ = newest->epoch;
  if (are_same_members(newest->nodes, members_)) return;
  meet_members(newest->nodes);
}

// What is known of those that stay is kept: else all nodes would be asked anew by all proxies
// whenever one comes.
void Follower::meet_members(const std::vector<node::NodeInfo>& nodes) {
  ++peers_version_;  // answers to what is under way are not heard
  size_t kept = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const bool stays = id < nodes.size() && nodes[id].name == members_[id].name &&
                       nodes[id].host == members_[id].host && nodes[id].port == members_[id].port;
    kept += stays;
    if (!stays) {
      peers_[id] = {};
      asked_[id] = {};
    }
    peers_[id].greeting = false;
    asked_[id].calls = 0;
  }
  if (2 * kept < nodes.size()) looks_since_ = now();  // most have told nothing of a decider
  know_members(nodes);
}

// Ours is the cluster that this proxy has served, else the one that most are of; null: that can not
// be told.
void Follower::tell_strays(const std::vector<MapPtr>& maps, const MapPtr& newest) {
  const MapPtr& own = ops_.map.last_served();
  const MapPtr& ours = own != nullptr ? own : newest;
  uint64_t first = 0;
  for (size_t id = 0; id < maps.size(); ++id) {
    if (maps[id] == nullptr) continue;
    const uint64_t cluster = maps[id]->cluster_id;
    first = first == 0 ? cluster : first;
    if (ours == nullptr && cluster != first) {
      return wait("the nodes belong to different clusters, and it can not be told which is ours");
    }
    if (ours == nullptr || cluster == ours->cluster_id) continue;
    if (std::exchange(peers_[id].is_stray, true)) continue;
    log_membership(LogLevel::kWarning,
                   LogFields().add("event", "other_cluster").add("node", members_[id].name));
  }
}

void Follower::know_members(std::vector<node::NodeInfo> nodes) {
  members_ = std::move(nodes);
  peers_.resize(members_.size());
  asked_.resize(members_.size());
  order_.resize(members_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  for (size_t left = order_.size(); left > 1; --left) {
    std::swap(order_[left - 1], order_[ops_.random.next() % left]);
  }
  ops_.map.know_members(members_, settings_.partitions);
}

bool Follower::is_ours(const ClusterMap& map) const { return map.cluster_id == cluster_id_; }

// Also where it serves nothing just now, and so has no map that it would have to get beyond.
bool Follower::is_before_own(const ClusterMap& map) const {
  const MapPtr& own = ops_.map.last_served();
  return own != nullptr && map.epoch != own->epoch && map.epoch.number <= own->epoch.number &&
         !mutant(Mutant::kFollowBack);
}

bool Follower::is_served(const ClusterMap& map, TimePoint since) const {
  return std::ranges::any_of(map.nodes, [&](const node::NodeInfo& member) {
    if (member.state != node::NodeState::kUp || member.id >= peers_.size()) return false;
    const Asked& asked = asked_[member.id];
    const NodeReport& report = peers_[member.id].report;
    if (mutant(Mutant::kFollowUnleased) && report.epoch == map.epoch) return true;
    return asked.leased == map.epoch && asked.leased_at >= since &&
           report.incarnation == member.incarnation;
  });
}

bool Follower::may_be_followed(const Peer& peer) const {
  const MapPtr& found = peer.found;
  if (found == nullptr || found->epoch != peer.report.epoch || !is_ours(*found)) return false;
  if (found->partitions.size() != settings_.partitions) return false;
  // A status could not tell of members that are not known yet.
  return found->nodes.size() <= members_.size();
}

// Most nodes have the same map, and a look at it is one at all its nodes.
bool Follower::would_go_back(TimePoint since) const {
  std::set<uint64_t> seen;
  return std::ranges::any_of(peers_, [&](const Peer& peer) {
    return may_be_followed(peer) && is_before_own(*peer.found) &&
           seen.insert(peer.found->epoch.map_hash).second && is_served(*peer.found, since);
  });
}

// What follows from the answers so far.
void Follower::look() {
  follow_members();
  // One node alone would not tell which cluster is ours.
  if (map_ == nullptr && !has_looked()) return;
  const TimePoint lately = now() - settings_.suspect_after;
  MapPtr newest = map_;
  for (const Peer& peer : peers_) {
    if (!may_be_followed(peer)) continue;
    const MapPtr& found = peer.found;
    const bool is_older = newest != nullptr && found->epoch.number <= newest->epoch.number;
    if (is_older && !mutant(Mutant::kFollowBack)) continue;
    if (!is_before_own(*found) && is_served(*found, lately)) newest = found;
  }
  if (newest != nullptr && is_served(*newest, lately)) {
    served_until_ = now();
    is_passed_over_ = false;
    if (serving_ && newest == map_) return;
    const node::CapabilitySet lacks = newest->capabilities.without(settings_.capabilities);
    is_too_old_ = lacks != node::CapabilitySet() && !mutant(Mutant::kServeBeyond);
    if (is_too_old_) {
      return wait(fmt::format("the cluster uses {}, for which this proxy is too old",
                              node::to_string(lacks)));
    }
    log_membership(LogLevel::kInfo,
                   LogFields().add("event", "follows").add("epoch", newest->epoch.number));
    map_ = newest;
    follow_cluster(settings_, *map_);
    serving_ = true;
    reason_.clear();
    ops_.map.serve(map_);
  } else {
    look_why_unserved(lately);
  }
}

// No node has had a lease lately under the map that it has, or any later one.
void Follower::look_why_unserved(TimePoint lately) {
  const bool is_long = now() - served_until_ > settings_.lease + settings_.suspect_after;
  if (serving_ && (!is_long || mutant(Mutant::kFollowForever))) return;
  if (would_go_back(lately)) {
    // What it knows of is given up. It would wait for that, and keep others from deciding.
    is_passed_over_ = true;
    return wait(
        "nodes serve an older map than this proxy has: restart it if records were given up");
  }
  // Until nodes that have what it knows of are back: it may build upon that.
  const MapPtr& own = ops_.map.last_served();
  is_passed_over_ =
      is_passed_over_ && std::ranges::none_of(peers_, [&](const Peer& peer) {
        return peer.report.verdict == Verdict::kAnswers && peer.report.epoch == own->epoch;
      });
  if (serving_) return wait(kNobodyDecides);
  const bool is_told_why = !reason_.empty() && reason_ != kNobodyDecides;
  if (is_long && !is_told_why && last_sign_ > lately) {
    wait("the proxy that decides has no map in use yet: its status says what it waits for");
  }
}

void Follower::wait(std::string reason) {
  serving_ = false;
  if (reason_ == reason) return;
  reason_ = std::move(reason);
  log_membership(LogLevel::kWarning, LogFields().add("event", "waits").add("reason", reason_));
  ops_.map.stop_serving(reason_);
}

void Follower::note_free_bytes() {
  ops_.map.expect_nodes(peers_.size());
  for (size_t id = 0; id < peers_.size(); ++id) {
    decider::note_free_bytes(*ops_.map.rooms(), static_cast<NodeId>(id), peers_[id]);
  }
}

std::vector<std::string> Follower::silent() const {
  std::vector<std::string> names;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const bool is_silent = peers_[id].report.verdict == Verdict::kSilent && peers_[id].is_judged();
    if (is_silent && !members_[id].is_removed()) names.push_back(members_[id].name);
  }
  return names;
}

ClusterStatus Follower::status() const {
  ClusterStatus status;
  status.decides = false;
  status.state = serving_ ? "serving" : reason_.empty() ? "starting" : "waiting";
  status.reason = reason_;
  describe_nodes(status, map_.get(), members_, peers_, now());
  if (map_ != nullptr) {
    describe_map(status, *map_, peers_);
    for (size_t id = 0; id < status.nodes.size(); ++id) {
      status.nodes[id].has_lease = asked_[id].leased == map_->epoch;
    }
  }
  leave_out_removed(status);
  return status;
}

}  // namespace elastripe::decider
