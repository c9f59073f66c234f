// The decider's frames: HELLO, INSTALL_MAP and HEARTBEAT, and what their replies teach.
#include <algorithm>

#include "proxy/base/log.h"
#include "proxy/ops/decider/decider_impl.h"
#include "proxy/ops/decider/told_map.h"
#include "server-patches/node/format/map_changes.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

using node::Capability;
using node::ClusterMap;
using node::Status;

void Decider::Impl::heard(size_t id, TimePoint sent, const Result<NodeReply>& reply) {
  Peer& peer = peers_[id];
  // A node that says that a thread of its own is stuck serves as little as a silent one.
  if (reply && reply->status() == Status::kNoLease) return;
  if (!reply) {
    const bool is_refused = reply.error().code == ErrorCode::kUnavailable;
    if (is_refused && settings_.refused_is_dead && sent >= peer.changed) peer.refused(now());
    return;
  }
  if (sent < peer.changed) return;
  const bool is_new = peer.report.incarnation != reply->header.incarnation;
  peer.answered(reply->header, sent, now());
  if (is_new) meet_process(peer);
}

// Asks at once for the map of a node whose reply has named an epoch that nobody here has seen:
// there is another decider, or its node has become another process, which may have a map of that
// decider already. No map is made before it is seen, as it would replace what it does not know.
void Decider::Impl::meet(size_t id) {
  if (!peers_[id].is_known(decider_id_) && !peers_[id].greeting) scope_.spawn(hello(id));
}

// A node that lacks what the cluster uses can not be a member: an older build, started in the place
// of a newer one.
void Decider::Impl::look_at_capabilities(size_t id) {
  Peer& peer = peers_[id];
  if (!peer.report.capabilities) return;
  const node::CapabilitySet lacks = required_.without(*peer.report.capabilities);
  if (lacks == std::exchange(peer.lacks, lacks) || lacks == node::CapabilitySet()) return;
  log_membership(LogLevel::kWarning, LogFields()
                                         .add("event", "too_old")
                                         .add("node", membership_.nodes[id].name)
                                         .add("lacks", node::to_string(lacks)));
}

// Followers wait for a decider whom a majority answers, and for no other.
node::DeciderSign Decider::Impl::sign() const {
  if (is_unfit_) return node::DeciderSign::kNone;
  if (leaves_) return node::DeciderSign::kLeaves;
  // Whoever begins says so before it has heard of anybody. One that never does can not decide, and
  // what it says may get through.
  const auto answers = [](const Peer& peer) { return peer.report.verdict == Verdict::kAnswers; };
  const bool begins =
      std::ranges::none_of(peers_, answers) && !std::ranges::all_of(peers_, &Peer::is_judged);
  return begins || peers_quorum() ? node::DeciderSign::kHere : node::DeciderSign::kNone;
}

Task<void> Decider::Impl::hello(size_t id) {
  const uint64_t version = peers_version_;
  Peer& peer = peers_[id];
  peer.greeting = true;
  const bool is_first = peer.answered_at == TimePoint{};
  const TimePoint sent = now();
  peer.greet_after = sent + (map_ == nullptr ? 2 * settings_.heartbeat : settings_.suspect_after);
  // With many nodes most have the same map, or the one before, and a map is large.
  MapPtr known = map_ != nullptr ? map_ : ops_.map.current();
  if (std::exchange(peer.asks_for_whole, false)) known = nullptr;
  // Whoever has a map signs its heartbeats, which are of a cluster: this process may be of another.
  const bool signs = map_ == nullptr && !peer.is_stray;
  const node::HelloRequest request{
      .known_map = known ? known->epoch.map_hash : 0,
      .sign = signs ? sign() : node::DeciderSign::kNone,
      .takes_changes = settings_.capabilities.has(Capability::kMapChanges)};
  const auto reply = co_await ops_.nodes.call(
      static_cast<NodeId>(id), Stamp{}, make_request(request), sent + settings_.suspect_after);
  if (over_ || version != peers_version_) co_return;
  peer.greeting = false;
  MapPtr found;
  if (reply && reply->status() == Status::kOk) {
    auto told = told_map(*reply, known, peers_);
    if (!told) {
      log_membership(LogLevel::kWarning, LogFields()
                                             .add("event", "map_unreadable")
                                             .add("node", membership_.nodes[id].name)
                                             .add("reason", told.error()));
      // What was told may have been changes. A whole map that can not be read is asked for in its
      // time.
      peer.asks_for_whole = known != nullptr;
      if (peer.asks_for_whole) peer.greet_after = {};
      co_return;
    }
    found = std::move(*told);
  }
  heard(id, sent, reply);
  if (!reply) co_return;
  if (reply->status() != Status::kOk) {
    if (reply->status() != Status::kNoLease) peer.tells_nothing(reply->header);
    co_return;
  }
  const bool has_lease = peer.told(reply->header, reply->args(), now());
  if (has_lease) peer.leased = reply->header.epoch;
  look_at_capabilities(id);
  // Later ones tell of ourselves.
  const bool is_decided =
      is_first && peer.decider_age && *peer.decider_age < settings_.suspect_after;
  const bool is_news = peer.shows(reply->header, found, decider_id_);
  if (found != nullptr && may_give_way_to(*found)) {
    const bool is_served = has_lease && !mutant(Mutant::kNeverGiveWay);
    if (is_served || is_late_for(*found, is_decided)) {
      last_.give_way_to(*found);
      co_return depose(found->epoch);
    }
  }
  if (map_ != nullptr && found != nullptr) {
    if (found->cluster_id == map_->cluster_id) {
      // What a process has that our map leaves out, nothing of ours relies on.
      const bool is_left_out = !map_->is_up(static_cast<NodeId>(id)) &&
                               map_->nodes[id].incarnation == peer.report.incarnation;
      if (is_news && !is_left_out) {
        yield_to(found->epoch);
      } else {
        check_foreign(found->epoch);
      }
    } else {
      set_aside(id);
    }
  }
  if (map_ == nullptr) {
    start();
    if (map_ != nullptr) send_frames();
  }
  advance();
}

// What the node is told of map_ in place of all of it, given the map that it has; empty: nothing is
// shorter that it would understand.
Buffer Decider::Impl::changes_for(const Peer& peer) {
  const auto& node_has = peer.report.capabilities;
  if (!settings_.capabilities.has(Capability::kMapChanges) || !node_has ||
      !node_has->has(Capability::kMapChanges) || peer.takes_whole) {
    return {};
  }
  const node::Epoch& has = peer.report.epoch;
  const auto is_it = [&](const MapPtr& map) { return map != nullptr && map->epoch == has; };
  MapPtr base = is_it(former_) ? former_ : is_it(peer.found) ? peer.found : nullptr;
  if (mutant(Mutant::kChangesOfAnyBase) && has.number != 0) base = former_;
  if (base == nullptr) return {};
  const auto [made, is_new] = changes_.try_emplace(base->epoch.map_hash);
  if (!is_new) return made->second;
  const auto changes = node::changes_between(*base, *map_);
  if (changes && changes->size() < encoded_map_.size()) made->second = Buffer::copy_of(*changes);
  return made->second;
}

Task<void> Decider::Impl::install(size_t id, MapPtr map) {
  const uint64_t version = peers_version_;
  Peer& peer = peers_[id];
  peer.installing = true;
  const TimePoint sent = now();
  // Accepted in place of the map that we know the node has, and of no other: a map that another
  // decider has had installed meanwhile is not overlooked (send_frames asks first where it is not
  // known).
  const node::Epoch replaced = peer.report.epoch;
  const Stamp stamp{map->cluster_id, replaced, 0};
  const Buffer changes = changes_for(peer);
  const bool is_changes = !changes.empty();
  const Buffer bytes = is_changes ? changes : encoded_map_;
  NodeRequestPtr request = make_request(node::InstallMapRequest{.is_changes = is_changes});
  request->payload.push_back(bytes.bytes());
  request->keep.push_back(bytes);
  const auto reply = co_await ops_.nodes.call(static_cast<NodeId>(id), stamp, std::move(request),
                                              sent + settings_.suspect_after);
  if (over_ || version != peers_version_) co_return;
  peer.installing = false;
  heard(id, sent, reply);
  meet(id);
  if (!reply || map_ != map || peer.report.incarnation != map->nodes[id].incarnation) co_return;
  // From now on, until it has this map.
  if (is_changes && reply->status() != Status::kOk) peer.takes_whole = true;
  if (reply->status() == Status::kOk) {
    peer.installed(map->epoch);
  } else if (reply->status() == Status::kStaleEpoch) {
    const node::Epoch& other = reply->header.epoch;
    if (other != replaced && other.decider != decider_id_) yield_to(other);
  } else {
    log_membership(LogLevel::kWarning, LogFields()
                                           .add("event", "map_refused")
                                           .add("node", membership_.nodes[id].name)
                                           .add("reason", node::name(reply->status())));
  }
  advance();
}

Task<void> Decider::Impl::heartbeat(size_t id, MapPtr map, Pulse pulse) {
  const uint64_t version = peers_version_;
  Peer& peer = peers_[id];
  ++peer.heartbeats;
  const TimePoint sent = now();
  node::HeartbeatRequest message;
  message.sign = pulse.sign;
  message.known_synced = peer.count_synced();
  if (pulse.grants) {
    message.lease_stamp_ms = peer.clock_ms;
    message.lease_ms = static_cast<uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(settings_.lease).count());
    // The node told the stamp before it came here; a heartbeat more, since time here is of the
    // turn.
    if (peer.clock_ms != 0) {
      peer.lease_until =
          std::max(peer.lease_until, peer.clock_at + settings_.lease + settings_.heartbeat);
    }
  }
  const Stamp stamp{map->cluster_id, map->epoch, 0};
  const auto reply = co_await ops_.nodes.call(static_cast<NodeId>(id), stamp, make_request(message),
                                              sent + settings_.suspect_after);
  if (over_ || version != peers_version_) co_return;
  --peer.heartbeats;
  heard(id, sent, reply);
  meet(id);
  if (!reply || map_ != map || peer.report.incarnation != map->nodes[id].incarnation) co_return;
  if (reply->status() == Status::kOk) {
    peer.acknowledged = map->epoch;
    const bool leased = peer.told(reply->header, reply->args(), now());
    if (leased && granting_) peer.leased = map->epoch;
  } else if (reply->status() == Status::kStaleEpoch) {
    check_foreign(reply->header.epoch);
  }
  advance();
}

}  // namespace elastripe::decider
